from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from varied_spaces import VARIED_SPACES

from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError
from archgrad.hypergradients import FirstOrder
from archgrad.spaces import SearchSpace
from tests.supernet.supernets import LABELS, Mixture, gradients_of, images, mixture_of, space_of, supernet_of

every_space = pytest.mark.parametrize("name", VARIED_SPACES)


def marks_of(space: SearchSpace, chance: float, seed: int = 3) -> Mixture:
    generator = torch.Generator().manual_seed(seed)
    return {b.name: torch.rand(b.cells, *b.shape, generator=generator) < chance for b in space.blocks}


@every_space
def test_a_supernet_is_a_pure_function(name: str) -> None:
    space = space_of(name)
    net, mixture = supernet_of(space), mixture_of(space)
    assert not dict(net.named_buffers())
    weights = {key: value.clone() for key, value in net.state_dict().items()}
    random_state = torch.get_rng_state()
    first = net(images(), mixture)
    net(images(seed=5), mixture)
    assert torch.equal(first, net(images(), mixture))
    assert torch.equal(first, net.eval()(images(), mixture))
    assert first.shape == (4, 3)
    assert torch.equal(random_state, torch.get_rng_state())
    assert all(torch.equal(weights[key], value) for key, value in net.state_dict().items())


def wrong(space: SearchSpace) -> dict[str, tuple[Mixture, str]]:
    mixture = mixture_of(space)
    normal = mixture["normal"]
    shape = r"it must be a tensor \[2, 14, 8\]"
    return {
        "missing": ({"reduce": mixture["reduce"]}, f"the mixture of block 'normal' is missing; {shape}"),
        "rows": (mixture | {"normal": normal[:, :13]}, rf"block 'normal' is \(2, 13, 8\); {shape}"),
        "unknown": (
            mixture | {"norml": normal},
            "unknown block in the mixture: 'norml'; did you mean 'normal'. Choose from: normal, reduce",
        ),
    }


@pytest.mark.parametrize("case", ["missing", "rows", "unknown"])
def test_a_wrong_mixture_is_explained(case: str) -> None:
    space = space_of("darts", cells=4)
    mixture, message = wrong(space)[case]
    with pytest.raises(UserError, match=message):
        supernet_of(space)(images(), mixture)


@pytest.mark.parametrize(
    ("block", "marks", "message"),
    [
        ("cell", torch.ones(3, 6, 4, dtype=torch.bool), r"are \[3, 6, 4\] of torch.bool; .* booleans of the mixture"),
        ("cell", torch.ones(3, 6, 5), r"are \[3, 6, 5\] of torch.float32; they must be booleans"),
        ("cel", torch.ones(3, 6, 5, dtype=torch.bool), "unknown block in the active marks: 'cel'; did you mean 'cell'"),
    ],
    ids=["shape", "dtype", "block"],
)
def test_wrong_marks_are_explained(block: str, marks: Tensor, message: str) -> None:
    space = space_of("nasbench201")
    with pytest.raises(UserError, match=message):
        supernet_of(space)(images(), mixture_of(space), active={block: marks})


@every_space
def test_inactive_entries_count_as_zero(name: str) -> None:
    space = space_of(name)
    net, mixture, active = supernet_of(space).double(), mixture_of(space), marks_of(space, 0.5)
    mixture = {key: value.detach().double().requires_grad_() for key, value in mixture.items()}
    silenced = {key: (value * active[key]).detach().requires_grad_() for key, value in mixture.items()}
    logits, expected = net(images().double(), mixture, active=active), net(images().double(), silenced)
    torch.testing.assert_close(logits, expected)
    # a silent layer of a chain cuts it, so that nothing before it has a gradient
    gradients = gradients_of(logits.square().sum(), mixture).values()
    wanted = torch.autograd.grad(expected.square().sum(), list(silenced.values()))
    for key, gradient, dense in zip(mixture, gradients, wanted, strict=True):
        assert not gradient[~active[key]].any()
        torch.testing.assert_close(gradient[active[key]], dense[active[key]])


def test_a_node_that_nothing_enters_is_zero() -> None:
    space = space_of("nasbench201")
    net, mixture = supernet_of(space), mixture_of(space)
    nothing = {"cell": torch.zeros(3, 6, 5, dtype=torch.bool)}
    logits = net(images(), mixture, active=nothing)
    # Zeros after the last cell: batch norm, ReLU and the mean leave zeros, so that only the bias remains.
    torch.testing.assert_close(logits, net.body.classifier.bias.expand(4, 3))
    (gradient,) = torch.autograd.grad(logits.sum(), mixture["cell"], allow_unused=True, materialize_grads=True)
    assert not gradient.any()


@pytest.mark.parametrize("name", ["darts", "s4"])
def test_silent_nodes_have_the_size_of_their_cell(name: str) -> None:
    space = space_of(name)
    net, mixture = supernet_of(space), mixture_of(space)
    active = {key: torch.ones_like(value, dtype=torch.bool) for key, value in mixture.items()}
    for marks in active.values():
        marks[:, :5] = False  # nodes 2 and 3 of every cell, the reducing ones too
    zeros = {key: (value * active[key]).detach() for key, value in mixture.items()}
    torch.testing.assert_close(net(images(), mixture, active=active), net(images(), zeros), rtol=1e-4, atol=1e-4)


def test_noise_is_a_function_of_the_seed() -> None:
    space = space_of("s4")
    net, mixture = supernet_of(space), mixture_of(space)
    first = net(images(), mixture, seed=1)
    assert torch.equal(first, net(images(), mixture, seed=1))
    assert not torch.allclose(first, net(images(), mixture, seed=2))
    assert torch.equal(net(images(), mixture), net(images(), mixture, seed=0))


class Kernels(TorchDispatchMode):
    """Notes which gradients convolutions compute."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: list[list[bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution_backward.default:
            self.masks.append(args[-1])
        return func(*args, **(kwargs or {}))


@every_space
def test_an_architecture_step_computes_no_gradient_of_a_weight(name: str) -> None:
    space = space_of(name)
    net = supernet_of(space)
    cells = {block.name: block.cells for block in space.blocks}

    def outer(weights: dict[str, Tensor], alpha: Mixture, batch: tuple[Tensor, Tensor]) -> Tensor:
        mixture = {key: value.softmax(-1).expand(cells[key], -1, -1) for key, value in alpha.items()}
        return F.cross_entropy(functional_call(net, weights, (batch[0], mixture)), batch[1])

    alpha = {block.name: torch.zeros(block.shape) for block in space.blocks}
    with Kernels() as kernels:
        gradient = FirstOrder()(
            BilevelProblem(outer, outer), dict(net.named_parameters()), alpha, None, (images(), LABELS)
        )
    assert all(value.any() for value in gradient.values())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert kernels.masks
    assert not any(weight or bias for _, weight, bias in kernels.masks)
