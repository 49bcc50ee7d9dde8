from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from archgrad.regularizers import AdversarialPerturbation, PerturbStep
from archgrad.regularizers.random_perturbation import draw_noise
from archgrad.spaces import DecisionBlock, Row

Tensors = dict[str, Tensor]
SHAPES = {"cell": (3, 6, 5), "other": (1, 4, 2)}


def blocks_of(mixture: Tensors) -> tuple[DecisionBlock, ...]:
    """Blocks of these shapes; those named after another weigh its edges."""
    return tuple(
        DecisionBlock(
            name,
            value.shape[0],
            tuple(Row(1, source, tuple(map(str, range(value.shape[2])))) for source in range(value.shape[1])),
            kind="edge" if name.endswith(".edges") else "operation",
        )
        for name, value in mixture.items()
    )


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tensors(seed: int, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Tensors:
    source = stream(seed)
    return {name: torch.randn(shape, generator=source, dtype=torch.float64) for name, shape in shapes.items()}


def mixture_of(seed: int) -> Tensors:
    rows = {name: shape[1:] for name, shape in SHAPES.items()}
    return {name: value.softmax(-1).expand(SHAPES[name]) for name, value in tensors(seed, rows).items()}


def linear(slopes: Tensors) -> Callable[[Tensors], Tensor]:
    return lambda mixture: torch.stack([(slopes[name] * value).sum() for name, value in mixture.items()]).sum()


def step_of(mixture: Tensors, loss: Callable[[Tensors], Tensor], progress: float, seed: int) -> PerturbStep:
    return PerturbStep(blocks_of(mixture), mixture, loss, progress, stream(seed))


def projected(weights: Tensor) -> Tensor:
    clamped = weights.clamp(0, 1)
    return clamped / clamped.sum(-1, keepdim=True)


def published(
    loss: Callable[[Tensors], Tensor], mixture: Tensors, first: Tensors, radius: float, steps: int
) -> Tensors:
    """Ascend as the published code does: sign steps of the mixture itself, kept within the ball, then projected."""
    rows = {name: value[0] for name, value in mixture.items()}
    p = {name: projected(rows[name] + first[name]) for name in rows}
    for _ in range(steps):
        leaves = {name: value.clone().requires_grad_() for name, value in p.items()}
        value = loss({name: leaf.expand(SHAPES[name]) for name, leaf in leaves.items()})
        slopes = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
        for name, slope in zip(leaves, slopes, strict=True):
            moved = p[name] + 2 * radius / steps * slope.sign()
            p[name] = projected(rows[name] + (moved - rows[name]).clamp(-radius, radius))
    found = {name: value.expand(SHAPES[name]) for name, value in p.items()}
    return mixture if loss(mixture) > loss(found) else found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_the_ascent_is_that_of_the_published_code(seed: int, steps: int, progress: float) -> None:
    matrices = {name: value.T @ value for name, value in tensors(seed, {"cell": (9, 30), "other": (9, 8)}).items()}

    def loss(mixture: Tensors) -> Tensor:
        rows = [(mixture[name].sum(0).flatten(), matrix) for name, matrix in matrices.items()]
        return torch.stack([(row.sin() @ matrix @ row) for row, matrix in rows]).sum()

    member, mixture = AdversarialPerturbation(0.05, 0.25, steps), mixture_of(3)
    radius = 0.05 + 0.2 * progress
    first = draw_noise(step_of(mixture, loss, progress, seed), radius)
    found = member.perturb(step_of(mixture, loss, progress, seed))
    torch.testing.assert_close(found, published(loss, mixture, first, radius, steps), rtol=0, atol=1e-10)


def test_a_perturbation_that_lowers_the_loss_is_not_kept() -> None:
    mixture, peak = mixture_of(3), {name: value[0] for name, value in mixture_of(3).items()}

    def loss(mixture: Tensors) -> Tensor:  # at its greatest where the mixture is
        return -torch.stack([(value - peak[name]).abs().sum() for name, value in mixture.items()]).sum()

    found = AdversarialPerturbation(steps=1).perturb(step_of(mixture, loss, 1.0, 0))
    assert all(found[name] is value for name, value in mixture.items())


def test_edge_weights_are_left_alone() -> None:
    edges = torch.full((3, 3, 3), 1 / 3, dtype=torch.float64)

    def loss(mixture: Tensors) -> Tensor:
        return (mixture["cell"].sum() * mixture["cell.edges"].sum()).sin()

    mixture = {"cell": mixture_of(1)["cell"], "cell.edges": edges}
    seen = AdversarialPerturbation().perturb(step_of(mixture, loss, 0.5, 0))
    assert torch.equal(seen["cell.edges"], edges)
    assert not torch.equal(seen["cell"], mixture["cell"])
