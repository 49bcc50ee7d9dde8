"""A hypergradient with a state, from one file outside of the package."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.bilevel.problem import BilevelProblem, Evaluation
from archgrad.callbacks import Callback
from archgrad.errors import SearchInterrupted
from archgrad.hypergradients import HYPERGRADIENTS, ConjugateGradient, FirstOrder, evaluate_at
from archgrad.system import random_streams

OWN = """
from dataclasses import dataclass

from archgrad.autodiff.krylov import conjugate_gradient
from archgrad.autodiff.vectors import added, zeros_like
from archgrad.hypergradients import SecondOrder

@dataclass(frozen=True)
class WarmStarted(SecondOrder):
    steps: int = 2
    damping: float = 1.0

    def init(self, weights, alpha):
        return {"solution": zeros_like(weights)}

    def estimate(self, point, state):
        direct, b = point.outer()
        products, last = self.products_at(point), state["solution"]
        rest = added(added(b, products.hessian(last), -1.0), last, -self.damping)
        x = added(last, conjugate_gradient(products.hessian, rest, self.steps, self.damping).x)
        return added(direct, products.mixed(x), -1.0), {"solution": x}
"""

DATA = ag.data.digits(limit=120)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "own_gradients.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_gradients")
    del sys.modules["own_gradients"]


def quadratic() -> tuple[BilevelProblem, dict[str, Tensor], dict[str, Tensor]]:
    draws = torch.Generator().manual_seed(0)
    root, mixed, b = (torch.randn(*shape, generator=draws, dtype=torch.float64) for shape in ((5, 5), (5, 3), (5,)))

    def inner(w: Any, a: Any, batch: Any) -> Tensor:
        return (w["w"] @ root).square().sum() / 2 + w["w"] @ mixed @ a["a"]

    def outer(w: Any, a: Any, batch: Any) -> Tensor:
        return w["w"] @ b + a["a"].square().sum()

    one = torch.ones(5, dtype=torch.float64)
    return BilevelProblem(inner, outer), {"w": one}, {"a": one[:3].clone()}


def test_a_warm_start_continues_from_the_last_solution(own: Any) -> None:
    problem, weights, alpha = quadratic()
    exact = ConjugateGradient(5, damping=1.0)(problem, weights, alpha, None, None)["a"]
    member, errors = own.WarmStarted(), []
    state = member.init(weights, alpha)
    with evaluate_at(problem, weights, alpha, None, None) as point:
        for _ in range(60):
            gradient, state = member.estimate(point, state)
            errors.append((gradient["a"] - exact).norm().item())
    once = (member(problem, weights, alpha, None, None)["a"] - exact).norm().item()
    assert errors[0] == once > 1e-3
    assert errors[-1] < 1e-6


@dataclass(frozen=True)
class Drawing(FirstOrder):
    """A random direction."""

    def estimate(self, point: Any, state: Any) -> Any:
        return {name: torch.rand(value.shape, generator=point.generator) for name, value in point.alpha.items()}, state


def test_an_estimate_draws_from_the_generator_it_is_given_and_from_no_other() -> None:
    def drawn(step: int) -> Tensor:
        draws = random_streams.generator(0, "test", step)
        return Drawing()(*quadratic(), None, None, generator=draws)["a"]

    before = torch.get_rng_state()
    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_point_keeps_what_its_first_evaluation_measured() -> None:
    def evaluate(w: Any, a: Any, batch: Any) -> Evaluation:
        mixture: Any = {"a": 3 * a["a"]}
        return Evaluation(mixture["a"].square().sum(), mixture, mixture["a"].detach())

    problem, weights, alpha = quadratic()
    with evaluate_at(replace(problem, evaluate=evaluate), weights, alpha, None, None) as point:
        point.direct()
        point.direct({"a": 2 * alpha["a"]})
    assert point.measured.tolist() == [3.0] * 3
    assert point.mixture_gradients["a"].tolist() == [6.0] * 3


def search(name: str, out: Path, **more: Any) -> ag.SearchResult:
    method = replace(ag.recipes.darts(), hypergradient=HYPERGRADIENTS.create(f"own_gradients:{name}"))
    space, more = Tiny(channels=2, cells_per_stage=1), {"epochs": 2, "batch_size": 16, "seed": 3, **more}
    return ag.search(space, method, DATA, out=out, standard_callbacks=False, **more)


@dataclass(frozen=True)
class Counting(FirstOrder):
    """Counts its estimates."""

    def init(self, weights: Any, alpha: Any) -> Any:
        return {"estimates": {"count": torch.zeros(())}}

    def estimate(self, point: Any, state: Any) -> Any:
        return super().estimate(point, {})[0], {"estimates": {"count": state["estimates"]["count"] + 1}}


def test_every_estimate_has_the_state_of_the_one_before() -> None:
    method = replace(ag.recipes.darts(), hypergradient=Counting())
    run = ag.Search(Tiny(channels=2, cells_per_stage=1), method, DATA, epochs=1, batch_size=16)
    run.epoch()
    assert run.state.hypergradient_state["estimates"]["count"] == run.state.steps > 1


class Interrupting(Callback):
    """Sends a signal in the middle of the first epoch."""

    def on_step_end(self, search: Any, means: Any) -> None:
        if search.index == 2:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.skipif(sys.platform == "win32", reason="the signals are those of POSIX")
def test_an_interrupted_search_resumes_to_the_bit(own: Any, tmp_path: Path) -> None:
    whole = search("WarmStarted", tmp_path / "whole")
    with pytest.raises(SearchInterrupted):
        search("WarmStarted", tmp_path / "cut", callbacks=[Interrupting()], interruptible=True)
    saved = torch.load(tmp_path / "cut" / "checkpoint.pt", weights_only=True)["content"]
    assert saved["position"]["step"] == 2
    assert saved["hypergradient_state"]
    resumed = search("WarmStarted", tmp_path / "cut", resume=True)
    for one, other in ((whole.alpha, resumed.alpha), (whole.supernet.state_dict(), resumed.supernet.state_dict())):
        assert all(torch.equal(value, other[key]) for key, value in one.items())
    ends = [torch.load(tmp_path / run / "checkpoint.pt", weights_only=True)["content"] for run in ("whole", "cut")]
    for key, values in ends[0]["hypergradient_state"].items():
        assert any(bool(value.any()) for value in values.values())
        assert all(torch.equal(value, ends[1]["hypergradient_state"][key][one]) for one, value in values.items())
