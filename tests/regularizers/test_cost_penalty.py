"""A search with a budget."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import EpochFinished, listening

import archgrad as ag
from archgrad.errors import UserError
from archgrad.regularizers import CostPenalty, OuterStep
from archgrad.spaces import cost_model
from archgrad.spaces.cost_model import CostModel, NetworkShape

DATA = ag.data.digits(limit=80)
SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
SHAPE = NetworkShape(10, 1, 8)
MODEL = CostModel.measure(SPACE, "madds", SHAPE)
RANGE = MODEL.highest - MODEL.lowest
QUICK: dict[str, Any] = {"epochs": 3, "batch_size": 20, "held_out": 0, "standard_callbacks": False}


def with_penalty(method: ag.Method, *parts: CostPenalty) -> ag.Method:
    return replace(method, regularizers=(*method.regularizers, *parts))


@pytest.mark.parametrize(
    "method", [ag.recipes.RECIPES["gaea-simultaneous"](space=SPACE), ag.recipes.darts()], ids=["gaea", "darts"]
)
def test_a_search_with_a_budget_ends_within_it(method: ag.Method) -> None:
    target = MODEL.lowest + 0.1 * RANGE
    free = [ag.search(SPACE, method, DATA, seed=seed, **QUICK) for seed in range(2)]
    assert any(MODEL.cost(result.genotype) > target for result in free)
    method = with_penalty(method, CostPenalty("madds", target))
    found = [MODEL.cost(ag.search(SPACE, method, DATA, seed=seed, **QUICK).genotype) for seed in range(4)]
    assert [cost <= target for cost in found] == [True] * 4


def step(alpha: torch.Tensor, progress: float = 1.0) -> OuterStep:
    probabilities = {"cell": alpha.softmax(-1)}
    return OuterStep(SPACE.blocks, {"cell": alpha}, probabilities, {}, progress)


def test_it_is_the_excess_of_the_derived_cell_and_pulls_along_the_expected_cost() -> None:
    alpha = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    probabilities = {"cell": alpha.softmax(-1)}
    cost = MODEL.cost(ag.discretizers.Argmax().select(SPACE, probabilities))
    part = CostPenalty("madds", cost - 100, weight=3.0, margin=0.0).bound(SPACE, SHAPE)
    term = part.outer_term(step(alpha, 0.5))
    assert term is not None
    assert term.item() == pytest.approx(3 * 0.5 / 0.55 * 100 / RANGE)
    (pull,) = torch.autograd.grad(term, [alpha])
    (slope,) = torch.autograd.grad(MODEL.around({}).expected({"cell": alpha.softmax(-1)}), [alpha])
    torch.testing.assert_close(pull, 1.5 / 0.55 * slope / RANGE)
    assert replace(part, target=cost).outer_term(step(alpha)) is None
    wide = replace(part, target=cost, margin=0.9)  # it grows with the progress
    assert [wide.outer_term(step(alpha, progress)) is not None for progress in (0.01, 1.0)] == [False, True]
    assert CostPenalty("madds", 1.0).outer_term(step(alpha)) is None


def test_targets_have_units() -> None:
    assert CostPenalty("madds", "600M") == CostPenalty("madds", 6e8)
    assert CostPenalty("latency", "5ms").limit == 0.005
    for metric, target in (("madds", "5ms"), ("latency", "5M"), ("madds", 0), ("madds", -1.0), ("params", math.nan)):
        with pytest.raises(UserError, match=r"target of CostPenalty is .*; "):
            CostPenalty(metric, target)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"metric of CostPenalty.*flops.*madds"):
        CostPenalty("flops", 1.0)  # type: ignore[arg-type]


def test_what_no_architecture_meets_is_refused_before_training() -> None:
    method = ag.recipes.RECIPES["gaea-simultaneous"](space=SPACE)
    with pytest.raises(
        UserError, match=r"target of CostPenalty is 1e-06 M multiply-adds, but the cheapest arch.*higher"
    ):
        ag.search(SPACE, with_penalty(method, CostPenalty("madds", 1)), DATA, **QUICK)
    with pytest.raises(UserError, match=r"CostPenalty has no target; .*cost-penalty.target=5ms"):
        ag.search(SPACE, with_penalty(method, CostPenalty("latency")), DATA, **QUICK)
    with pytest.raises(UserError, match="stages of a progressive search differ in size"):
        with_penalty(ag.recipes.p_darts(), CostPenalty("madds", 1e6))


class KilledError(Exception):
    pass


def kill(event: Any) -> None:
    if isinstance(event, EpochFinished) and event.record["epoch"] == 2:
        raise KilledError


@pytest.mark.parametrize("metric", ["madds", "latency"])
def test_a_resumed_search_has_the_same_costs_and_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: Any
) -> None:
    """A latency is never measured twice: here another measurement would say that all operations take equally long."""

    def time_parts(slow: float) -> Any:
        def timed(network: Any, kinds: dict[Any, Any], *shape: Any) -> tuple[float, list[float]]:
            times = [1.0 + slow * ("3x3" in kind[0]) for kind in kinds.values()]
            return 5.0 + sum(times), times

        return timed

    target = {"madds": MODEL.lowest + 0.1 * RANGE, "latency": 30.0}[metric]
    method = with_penalty(ag.recipes.darts(), CostPenalty(metric, target))
    monkeypatch.setattr(cost_model, "time_parts", time_parts(1.0))
    whole = ag.search(SPACE, method, DATA, out=tmp_path / "whole", **QUICK)
    free = ag.search(SPACE, ag.recipes.darts(), DATA, **QUICK)
    with pytest.raises(KilledError):
        ag.search(SPACE, method, DATA, out=tmp_path / "killed", callbacks=listening(kill), **QUICK)
    monkeypatch.setattr(cost_model, "time_parts", time_parts(0.0))
    resumed = ag.resume(tmp_path / "killed", data=DATA)
    assert torch.equal(whole.alpha["cell"], resumed.alpha["cell"])
    assert not torch.equal(whole.alpha["cell"], free.alpha["cell"])


def test_the_command_reads_units_and_reports_the_budget(archgrad: Any, tmp_path: Path) -> None:
    tiny = ["--channels", 2, "--cells", 1, "--limit", 80, "--batch-size", 20, "--epochs", 1, "--out", tmp_path / "run"]
    budget = ["--regularizer", "+cost-penalty", "--set", "cost-penalty.target=1M"]
    assert "% of 1 M multiply-adds: within the target" in archgrad.run("search", *tiny, *budget)
    assert "target = 1000000.0" in (tmp_path / "run" / "config.toml").read_text()
    for wrong, sentence in (("target=x", "target of CostPenalty is 'x'; write"), ("metric=x", "cost-penalty.metric")):
        assert sentence in archgrad.error("search", *tiny[:-2], *budget, "--set", f"cost-penalty.{wrong}")
