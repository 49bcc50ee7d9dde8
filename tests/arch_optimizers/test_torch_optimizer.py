"""Any optimizer of PyTorch moves α, and wrappers compose."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from archgrad.arch_optimizers import Adam, Annealed, Clipped, TorchOptimizer
from archgrad.autodiff.tensors import Alpha
from archgrad.errors import UserError


def gradients(steps: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(3, 4, generator=generator, dtype=torch.float64) for _ in range(steps)]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Rprop"])
def test_it_takes_the_steps_of_pytorch(name: str) -> None:
    member, alpha = TorchOptimizer(name, lr=0.01), Alpha({"cell": torch.ones(3, 4, dtype=torch.float64)})
    leaf = alpha["cell"].clone().requires_grad_()
    expected, state = getattr(torch.optim, name)([leaf], lr=0.01), member.init(alpha, 8)
    for gradient in gradients(8):
        alpha, state = member.step(alpha, Alpha({"cell": gradient}), state)
        leaf.grad = gradient.clone()
        expected.step()
    assert torch.equal(alpha["cell"], leaf.detach())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "AdamX"}, "unknown name of an optimizer in torch.optim: 'AdamX'; did you mean"),
        ({"name": "torch.nn:Linear"}, "torch.nn:Linear is no optimizer: it must be a subclass"),
        ({"name": "LBFGS"}, "LBFGS of torch.optim cannot move α with lr=0.0003"),
        ({"settings": ("depth=3",)}, "cannot move α .*depth"),
        ({"settings": ("depth",)}, "arch_optimizer.settings has 'depth'; write name=value"),
        ({"lr": 0.0}, "arch_optimizer.lr is 0.0"),
    ],
)
def test_what_it_cannot_do_is_a_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TorchOptimizer(**arguments)


def test_clipping_bounds_the_norm_of_each_block() -> None:
    seen: list[Alpha] = []

    class Spy(Adam):
        def step(self, alpha: Alpha, gradient: Alpha, state: Any) -> Any:
            seen.append(gradient)
            return super().step(alpha, gradient, state)

    alpha = Alpha({"normal": torch.zeros(2), "reduce": torch.zeros(2)})
    member = Clipped(Spy(), norm=1.0)
    for size in (3.0, 0.1, 0.0):
        member.step(alpha, Alpha({name: torch.full((2,), size) for name in alpha}), member.init(alpha, 1))
    assert [one["reduce"].norm().item() for one in seen] == pytest.approx([1.0, 0.1 * math.sqrt(2), 0.0])


def test_annealing_ends_at_the_last_share() -> None:
    member = Annealed(TorchOptimizer("SGD", lr=1.0), last=0.5)
    alpha = Alpha({"cell": torch.zeros(1, dtype=torch.float64)})
    state, ones, moves = member.init(alpha, 4), Alpha({"cell": torch.ones(1, dtype=torch.float64)}), []
    for _ in range(5):
        moved, state = member.step(alpha, ones, state)
        moves.append((alpha["cell"] - moved["cell"]).item())
        alpha = moved
    assert moves == pytest.approx([0.5 + 0.25 * (1 + math.cos(math.pi * step / 4)) for step in range(5)])


def test_the_command_takes_them(archgrad: Any) -> None:
    small = ("--channels", 2, "--cells", 1, "--limit", 40, "--batch-size", 10, "--epochs", 1, "--method", "darts")
    settings = ("--set", "arch_optimizer.name=SGD", "--set", "arch_optimizer.settings=momentum=0.9,nesterov=true")
    archgrad.run("search", *small, "--arch-optimizer", "torch", *settings, "--out", "run")
    archgrad.run("resume", "run")
