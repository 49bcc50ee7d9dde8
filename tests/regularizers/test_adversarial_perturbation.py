from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import archgrad as ag
from archgrad.errors import UserError
from archgrad.regularizers import AdversarialPerturbation, PerturbStep, RandomPerturbation
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


def shifts(
    member: AdversarialPerturbation, loss: Callable[[Tensors], Tensor], progress: float, seed: int = 0
) -> tuple[Tensors, Tensors]:
    """Return the δ that was found and the random one that the ascent began with."""
    mixture = mixture_of(3)
    found = member.perturb(step_of(mixture, loss, progress, seed))
    first = RandomPerturbation(member.start, member.end).perturb(step_of(mixture, loss, progress, seed))
    return tuple({name: seen[name] - mixture[name] for name in mixture} for seen in (found, first))  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("progress", "radius"), [(0.0, 0.03), (0.5, 0.165), (1.0, 0.3)])
def test_the_worst_of_a_linear_loss_is_the_corner_that_its_slope_points_to(
    seed: int, progress: float, radius: float
) -> None:
    slopes = tensors(seed)
    found, _ = shifts(AdversarialPerturbation(), linear(slopes), progress, seed)
    for name, slope in slopes.items():
        expected = (radius * slope.sum(0).sign()).expand(SHAPES[name])  # the cells share δ, whose slope is their sum
        torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_ascent_is_that_of_the_paper(seed: int, steps: int) -> None:
    matrices = {name: value.T @ value for name, value in tensors(seed, {"cell": (9, 30), "other": (9, 8)}).items()}

    def loss(mixture: Tensors) -> Tensor:
        rows = [(mixture[name].sum(0).flatten(), matrix) for name, matrix in matrices.items()]
        return torch.stack([(row.sin() @ matrix @ row) for row, matrix in rows]).sum()

    member, mixture = AdversarialPerturbation(0.05, 0.25, steps), mixture_of(3)
    found, first = shifts(member, loss, 0.5, seed)
    radius = 0.15
    for name, matrix in matrices.items():
        cells, delta = SHAPES[name][0], first[name][0].flatten()
        base = mixture[name].sum(0).flatten()
        for _ in range(steps):
            x = base + cells * delta
            slope = cells * (x.cos() * (matrix @ x) + matrix @ x.sin())
            delta = (delta + 2 * radius / steps * slope.sign()).clamp(-radius, radius)
        torch.testing.assert_close(found[name][0].flatten(), delta, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_grows_and_the_ball_is_never_left(seed: int) -> None:
    centre, seen = tensors(seed), list[Tensors]()

    def loss(mixture: Tensors) -> Tensor:
        seen.append({name: value.detach() for name, value in mixture.items()})
        return torch.stack([(value - centre[name]).square().sum() for name, value in mixture.items()]).sum()

    mixture, member = mixture_of(3), AdversarialPerturbation()
    found, first = shifts(member, loss, 0.5, seed)
    assert len(seen) == 7
    torch.testing.assert_close(seen[0]["cell"], mixture["cell"] + first["cell"])
    for evaluated in seen:
        for name, value in evaluated.items():
            assert (value - mixture[name]).abs().max() <= 0.165 + 1e-12
    values = [
        loss({name: mixture[name] + shift[name] for name in mixture}).item()
        for shift in ({name: torch.zeros_like(value) for name, value in found.items()}, first, found)
    ]
    assert values[2] >= max(values[:2])
    assert all(value.abs().max() <= 0.165 + 1e-12 for value in found.values())


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_every_step_is_one_evaluation(steps: int) -> None:
    calls: list[int] = []

    def loss(mixture: Tensors) -> Tensor:
        calls.append(1)
        return mixture["cell"].square().sum()

    found, first = shifts(AdversarialPerturbation(steps=steps), loss, 1.0)
    assert len(calls) == steps
    assert torch.equal(found["other"], first["other"])  # no slope, no step


def test_edge_weights_are_left_alone() -> None:
    edges = torch.full((3, 3, 3), 1 / 3, dtype=torch.float64)

    def loss(mixture: Tensors) -> Tensor:
        return (mixture["cell"].sum() * mixture["cell.edges"].sum()).sin()

    mixture = {"cell": mixture_of(1)["cell"], "cell.edges": edges}
    seen = AdversarialPerturbation().perturb(step_of(mixture, loss, 0.5, 0))
    assert torch.equal(seen["cell.edges"], edges)
    assert not torch.equal(seen["cell"], mixture["cell"])


def test_weights_of_a_search_are_trained_at_a_loss_that_is_larger() -> None:
    seen: list[tuple[float, float, float]] = []

    class Watched(AdversarialPerturbation):
        def perturb(self, step: PerturbStep) -> Tensors:
            found = super().perturb(step)
            shift = (found["cell"] - step.mixture["cell"]).abs().max().item()
            seen.append((step.loss(step.mixture).item(), step.loss(found).item(), shift))
            return found

    method: ag.Method = replace(ag.recipes.sdarts("adv"), regularizers=(Watched(),))
    space, data = ag.spaces.nasbench201(channels=4, cells_per_stage=1), ag.data.digits(limit=80)
    ag.search(space, method, data, epochs=2, batch_size=20, seed=3, diagnostics=())
    assert len(seen) == 4
    for index, (plain, worst, shift) in enumerate(seen):
        assert worst > plain
        assert shift == pytest.approx(0.03 + 0.27 * index / 4, abs=1e-6)


def test_no_trace_is_left_at_the_weights() -> None:
    weight = torch.ones(5, dtype=torch.float64, requires_grad=True)

    def loss(mixture: Tensors) -> Tensor:
        return (mixture["cell"] * weight).sum()

    seen = AdversarialPerturbation().perturb(step_of(mixture_of(0), loss, 0.5, 0))
    assert weight.grad is None
    assert not seen["cell"].requires_grad


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"start": -1.0}, "start of AdversarialPerturbation is -1.0; it must be a number of 0 or more"),
        ({"end": float("nan")}, "end of AdversarialPerturbation is nan; it must be a number of 0 or more"),
        ({"steps": 0}, "steps of AdversarialPerturbation is 0; it must be at least 1 and a whole number"),
        ({"steps": 1.5}, "steps of AdversarialPerturbation is 1.5; it must be at least 1"),
    ],
)
def test_wrong_knobs_are_explained(knobs: dict[str, float], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        AdversarialPerturbation(**knobs)  # type: ignore[arg-type]
