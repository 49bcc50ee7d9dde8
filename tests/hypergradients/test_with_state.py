"""Estimates that keep something for the next: on quadratic problems, and in a search that dies."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import assert_same, dying_at
from seeded import randn
from test_closed_forms import error
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import (
    HYPERGRADIENTS,
    SOBA,
    ConjugateGradient,
    Hypergradient,
    HypergradientState,
    Neumann,
    Nystrom,
    evaluate_at,
)

Tensors = dict[str, Tensor]
KINDS = ("exact", "finite", "forward", "exact-hessian")
every_kind = pytest.mark.parametrize("kind", KINDS)
BASIS = torch.linalg.qr(randn(6, 6, seed=0))[0]
H = BASIS @ torch.diag(torch.tensor([0.5, 0.8, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)) @ BASIS.T
MIXED, SLOPE = randn(6, 3, seed=1), randn(6, seed=2)


def inner(w: Tensors, a: Tensors, batch: Any) -> Tensor:
    flat = torch.cat([w["x"].flatten(), w["y"]])
    return 0.5 * flat @ H @ flat - flat @ MIXED @ a["a"]


def outer(w: Tensors, a: Tensors, batch: Any) -> Tensor:
    return torch.cat([w["x"].flatten(), w["y"]]) @ SLOPE + a["a"].square().sum()


ALPHA = {"a": randn(3, seed=3)}
WEIGHTS = {"x": randn(2, 2, seed=4), "y": randn(2, seed=5)}
POINT = BilevelProblem(inner, outer), WEIGHTS, ALPHA, None, None


def truth(x: Tensor) -> Tensor:
    """∂L2/∂α − M·x: the inner loss has M = −Bᵀ."""
    return 2 * ALPHA["a"] + MIXED.T @ x


def exact(damping: float = 0.0) -> Tensor:
    return truth(torch.linalg.solve(H + damping * torch.eye(6, dtype=torch.float64), SLOPE))


def estimates(member: Hypergradient, number: int, **more: Any) -> tuple[list[Tensor], list[HypergradientState]]:
    """Return what so many estimates at the same point are, and their states."""
    found, states = [], [member.init(WEIGHTS, ALPHA)]
    with evaluate_at(*POINT, **more) as point:
        for _ in range(number):
            gradient, state = member.estimate(point, states[-1])
            found.append(gradient["a"])
            states.append(state)
    return found, states


@every_kind
@pytest.mark.parametrize("damping", [0.0, 1.0])
def test_a_warm_start_converges_with_few_steps(kind: Any, damping: float) -> None:
    found, _ = estimates(ConjugateGradient(2, damping, warm_start=True, products=kind), 30)
    cold = ConjugateGradient(2, damping, products=kind)(*POINT)["a"]
    torch.testing.assert_close(found[0], cold, rtol=1e-6, atol=1e-9)
    assert error(found[0], exact(damping)) > 1e-3
    assert error(found[-1], exact(damping)) < 1e-6


@every_kind
@pytest.mark.parametrize(("momentum", "damping"), [(0.0, 0.0), (0.0, 1.0), (0.7, 0.0)])
def test_soba_converges_to_the_implicit_gradient(kind: Any, momentum: float, damping: float) -> None:
    found, _ = estimates(SOBA(0.3, momentum, damping, products=kind), 200)
    assert torch.equal(found[0], 2 * ALPHA["a"])  # it begins at first order
    assert error(found[-1], exact(damping)) < 1e-6


def test_soba_takes_the_steps_of_the_paper() -> None:
    v = m = torch.zeros(6, dtype=torch.float64)
    for estimate in estimates(SOBA(0.1, 0.5, 0.2), 6)[0]:
        torch.testing.assert_close(estimate, truth(v), rtol=1e-12, atol=1e-12)
        m = 0.5 * m + (H @ v + 0.2 * v - SLOPE)
        v = v - 0.1 * m


def test_without_momentum_soba_is_a_neumann_series_of_one_term_more_at_each_step() -> None:
    found, states = estimates(SOBA(), 5, descent=Descent(0.1, momentum=0.9))
    for terms, estimate in enumerate(found[1:]):
        torch.testing.assert_close(estimate, Neumann(terms, 0.1)(*POINT)["a"], rtol=1e-12, atol=1e-12)
    assert list(states[0]) == ["solution"]


@every_kind
@pytest.mark.parametrize("damping", [1e-4, 0.01, 1.0])
def test_a_sketch_of_every_column_is_exact(kind: Any, damping: float) -> None:
    (estimate,), _ = estimates(Nystrom(50, damping, products=kind), 1)
    assert error(estimate, exact(damping)) < 1e-6
    assert error(estimate, exact()) < 3 * damping


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_sketch_is_the_formula_of_the_paper(rank: int) -> None:
    draws = torch.Generator().manual_seed(7)
    (estimate,), states = estimates(Nystrom(rank, 0.3), 1, generator=draws)
    chosen = torch.randperm(6, generator=torch.Generator().manual_seed(7))[:rank]
    columns = H[:, chosen]
    low = columns @ torch.linalg.inv(H[chosen][:, chosen]) @ columns.T
    solution = torch.linalg.solve(low + 0.3 * torch.eye(6, dtype=torch.float64), SLOPE)
    torch.testing.assert_close(estimate, truth(solution), rtol=1e-9, atol=1e-9)
    assert {name: value.shape for name, value in states[1]["factors"].items()} == {"x": (rank, 2, 2), "y": (rank, 2)}


def test_a_sketch_of_an_indefinite_hessian_keeps_its_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "H", H - 1.5 * torch.eye(6, dtype=torch.float64))
    (estimate,), states = estimates(Nystrom(6, 2.0), 1)
    assert error(estimate, exact(2.0)) < 1e-9
    assert set(states[1]["signs"]["signs"].tolist()) == {-1.0, 1.0}


def test_a_sketch_serves_for_as_many_steps_as_it_says() -> None:
    _, states = estimates(Nystrom(2, 0.3, every=3), 7)
    sketches = [state["factors"]["x"] for state in states[1:]]
    same = [torch.equal(one, other) for one, other in itertools.pairwise(sketches)]
    assert same == [True, True, False, True, True, False]


STATES: dict[str, Hypergradient] = {
    "conjugate-gradient": ConjugateGradient(2, 1.0, warm_start=True),
    "nystrom": Nystrom(2, 1.0, 3),
    "soba": SOBA(0.01, 0.5, 0.1),
}


@pytest.mark.parametrize("name", STATES)
def test_a_search_that_died_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    member = dataclasses.replace(STATES[name], products="forward")  # type: ignore[type-var]
    assert type(HYPERGRADIENTS.create(name)) is type(member)
    method = dataclasses.replace(ag.recipes.darts(), hypergradient=member)
    space, data = Tiny(channels=2, cells_per_stage=1), ag.data.digits(limit=96)

    def run(**more: Any) -> ag.SearchResult:
        settings: dict[str, Any] = {"epochs": 2, "batch_size": 16, "seed": 1, "standard_callbacks": False}
        return ag.search(space, method, data, **settings, **more)

    whole = run(out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "cut", callbacks=dying_at())
    assert_same(whole, run(out=tmp_path / "cut", resume=True))
    ends = [torch.load(tmp_path / one / "checkpoint.pt", weights_only=True)["content"] for one in ("whole", "cut")]
    kept, again = (end["hypergradient_state"] for end in ends)
    for key, values in kept.items():
        assert any(bool(value.any()) for value in values.values())
        assert all(torch.equal(value, again[key][one]) for one, value in values.items())
