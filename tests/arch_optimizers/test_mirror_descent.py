"""Mirror descent as an architecture optimizer: what it converges to, how fast, and for how long."""

from __future__ import annotations

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.arch_optimizers import ArchOptimizer, ExponentiatedGradient, MirrorDescent
from archgrad.errors import UserError


def uniform(rows: int, choices: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    return {"cell": torch.full((rows, choices), 1 / choices, dtype=dtype)}


def walked(member: ArchOptimizer, alpha: dict[str, Tensor], gradient: Tensor, steps: int) -> Tensor:
    state = member.init(alpha, steps)
    for _ in range(steps):
        alpha, state = member.step(alpha, {"cell": gradient}, state)
    return alpha["cell"]


@pytest.mark.parametrize("seed", range(3))
def test_exponentiated_gradient_is_the_named_case(seed: int) -> None:
    named, general = ExponentiatedGradient(lr=0.3, floor=1e-3), MirrorDescent("entropy", lr=0.3, floor=1e-3)
    alpha = {"cell": randn(3, 5, seed=seed).softmax(-1)}
    gradient = {"cell": randn(3, 5, seed=100 + seed)}
    state = named.init(alpha, 1)
    assert torch.equal(named.step(alpha, gradient, state)[0]["cell"], general.step(alpha, gradient, state)[0]["cell"])
    assert MirrorDescent() == MirrorDescent("entropy", 0.1, None)
    default = MirrorDescent().step(alpha, gradient, state)[0]["cell"]
    assert torch.equal(default, ExponentiatedGradient().step(alpha, gradient, state)[0]["cell"])


@pytest.mark.parametrize("seed", range(3))
def test_many_steps_of_exponentiated_gradient_are_one_long_step(seed: int) -> None:
    """On a linear loss, θ_t ∝ θ_0 ⊙ exp(−lr·t·g)."""
    alpha, gradient = {"cell": randn(3, 5, seed=seed).softmax(-1)}, randn(3, 5, seed=100 + seed)
    found = walked(ExponentiatedGradient(lr=0.1, floor=0.0), alpha, gradient, 50)
    torch.testing.assert_close(found, (alpha["cell"].log() - 0.1 * 50 * gradient).softmax(-1), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("geometry", ["entropy", "euclidean"])
def test_a_step_forgets_that_a_row_was_off_the_simplex(geometry: str) -> None:
    """So rounding errors do not add up, however many steps there are."""
    off = {"cell": 1.01 * randn(3, 5, seed=0).softmax(-1)}
    found = walked(MirrorDescent(geometry), off, randn(3, 5, seed=1), 1)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-15)


def test_the_floor_keeps_every_choice_alive() -> None:
    gradient = torch.tensor([[0.0, 1e6, 1e6, 0.0]], dtype=torch.float64)
    alpha = {"cell": torch.tensor([[0.4, 0.3, 0.3, 0.0]], dtype=torch.float64)}
    found = walked(ExponentiatedGradient(floor=1e-3), alpha, gradient, 10)
    torch.testing.assert_close(found, torch.tensor([[1.0, 1e-3, 1e-3, 0.0]], dtype=torch.float64) / 1.002)
    assert walked(ExponentiatedGradient(floor=0.0), alpha, gradient, 10).tolist() == [[1.0, 0.0, 0.0, 0.0]]
    back = walked(ExponentiatedGradient(), {"cell": found}, -gradient, 1)
    torch.testing.assert_close(back[0, 1:3], torch.full((2,), 0.5, dtype=torch.float64), rtol=0, atol=1e-4)


def test_a_floor_that_does_nothing_or_too_much_is_refused() -> None:
    with pytest.raises(UserError, match=r"floor is 1e-05, but euclidean .*; leave it out"):
        MirrorDescent("euclidean", floor=1e-5)
    with pytest.raises(UserError, match=r"floor is 0\.25, .* a row of 4 choices .* below 0\.25"):
        ExponentiatedGradient(floor=0.25).init(uniform(2, 4), 1)
