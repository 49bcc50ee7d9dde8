from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from seeded import randn
from tiny_space import Tiny

import archgrad as ag
from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError
from archgrad.hypergradients import FirstOrder, Neumann, Nystrom, PerExample, SharpnessAware

ROOT = randn(3, 3, seed=0).double()
BEND = ROOT @ ROOT.T
ALPHA = {"a": randn(2, seed=1).double(), "b": randn(1, seed=2).double()}


def outer(w: dict[str, torch.Tensor], a: dict[str, torch.Tensor], batch: object) -> torch.Tensor:
    whole = torch.cat([a["a"], a["b"]])
    return whole @ BEND @ whole / 2 + w["w"] * whole.sum()


def inner(w: dict[str, torch.Tensor], a: dict[str, torch.Tensor], batch: object) -> torch.Tensor:
    return (w["w"] - a["a"].sum() * a["b"].sum()) ** 2


PROBLEM, WEIGHTS = BilevelProblem(inner, outer), {"w": torch.tensor(0.7, dtype=torch.float64)}


@pytest.mark.parametrize("rho", [0.01, 0.5])
def test_it_is_the_gradient_at_the_worst_point_of_the_ball_to_first_order(rho: float) -> None:
    whole = torch.cat([ALPHA["a"], ALPHA["b"]])
    slope = BEND @ whole + WEIGHTS["w"]
    wanted = BEND @ (whole + rho * slope / slope.norm()) + WEIGHTS["w"]
    found = SharpnessAware(rho)(PROBLEM, WEIGHTS, ALPHA, None, None)
    torch.testing.assert_close(torch.cat([found["a"], found["b"]]), wanted)


def test_it_wraps_any_estimate() -> None:
    series = Neumann(3, 0.1)
    first = series(PROBLEM, WEIGHTS, ALPHA, None, None)
    size = torch.cat(list(first.values())).norm()
    moved = {name: value + 0.2 * first[name] / size for name, value in ALPHA.items()}
    found = SharpnessAware(0.2, series)(PROBLEM, WEIGHTS, ALPHA, None, None)
    for name, value in series(PROBLEM, WEIGHTS, moved, None, None).items():
        torch.testing.assert_close(found[name], value)


def test_where_the_gradient_vanishes_nothing_moves() -> None:
    flat = BilevelProblem(inner, lambda w, a, x: (a["a"] * 0).sum() + (a["b"] * 0).sum())
    assert not any(value.any() for value in SharpnessAware()(flat, WEIGHTS, ALPHA, None, None).values())


def test_it_asks_the_estimate_that_it_wraps() -> None:
    for one in (FirstOrder(), PerExample(), Neumann()):
        whole = SharpnessAware(of=one)
        assert (whole.order, whole.per_image, whole.inner_batches) == (one.order, one.per_image, one.inner_batches)
        assert (whole.optimizers, whole.callbacks) == (one.optimizers, one.callbacks)
        assert not whole.is_plain


def test_one_backward_pass_for_both_does_not_give_it() -> None:
    with pytest.raises(UserError, match="SharpnessAware"):
        replace(ag.recipes.gaea(updates="simultaneous"), hypergradient=SharpnessAware())


def test_a_search_records_the_loss_where_it_stands() -> None:
    """The first evaluation is at α, so the record of one step is that of DARTS, and only α differs after it."""
    method = ag.recipes.darts()
    data, space = ag.data.digits(limit=32), Tiny(channels=2, cells_per_stage=1)
    plain, sharp = (
        ag.search(space, replace(method, hypergradient=one), data, epochs=1, batch_size=16, held_out=0)
        for one in (FirstOrder(), SharpnessAware(0.5))
    )
    assert plain.history[0]["arch_loss"] == sharp.history[0]["arch_loss"]
    assert not torch.equal(plain.alpha["cell"], sharp.alpha["cell"])


def test_both_estimates_draw_the_same_numbers() -> None:
    stretch = BilevelProblem(
        lambda w, a, x: (w["w"] * torch.arange(1.0, 6.0) - a["a"].sum()).square().sum(),
        lambda w, a, x: (w["w"] * a["a"].sum() - a["b"]).square().sum(),
    )
    point, sketch = ({"w": torch.linspace(-1, 1, 5).double()}, ALPHA, None, None), Nystrom(2, 0.1)
    near = SharpnessAware(1e-9, sketch)(stretch, *point)
    for name, value in sketch(stretch, *point).items():
        torch.testing.assert_close(near[name], value)
