"""A search for a device: the penalty steers by the fitted sum, and the table decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from latencies import crossed, write_latencies

import archgrad as ag
from archgrad.errors import UserError
from archgrad.regularizers import CostPenalty, OuterStep
from archgrad.spaces.cost_model import NetworkShape
from archgrad.spaces.nasbench201_cells import codes_by_name

SPACE, SHAPE = ag.spaces.NASBench201(channels=2, cells_per_stage=1), NetworkShape(10, 1, 8)
QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 20, "held_out": 0, "standard_callbacks": False}
NAMES = [*codes_by_name()]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_latencies(tmp_path_factory.mktemp("latencies") / "own.csv"))


def test_the_penalty_has_the_gradient_of_finite_differences(path: str) -> None:
    """Above the target its value is the excess of the derived cell, and its slope that of the expected latency."""
    part = CostPenalty("latency", "5ms", weight=2.0, device="crossed", table=path).bound(SPACE, SHAPE)
    assert part.model is not None
    alpha = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    term = part.outer_term(OuterStep(SPACE.blocks, {"cell": alpha}, {"cell": alpha.softmax(-1)}, {}, 0.5))
    assert term is not None
    (slope,) = torch.autograd.grad(term, [alpha])
    scale = part.price(0.5) / (part.model.highest - part.model.lowest)
    for row, choice in ((0, 3), (2, 1), (5, 4)):
        step = torch.zeros_like(alpha)
        step[row, choice] = 1e-5
        up, down = (
            part.model.around({}).expected({"cell": (alpha + sign * step).softmax(-1)}).item() for sign in (1, -1)
        )
        assert slope[row, choice].item() == pytest.approx(scale * (up - down) / 2e-5, rel=1e-6)


def test_the_found_cell_is_within_the_target_by_the_table_itself(path: str) -> None:
    target = 0.010
    part = CostPenalty("latency", target, device="crossed", table=path)
    method = replace(ag.recipes.darts(), regularizers=(part,))
    for seed in range(3):
        found = ag.search(SPACE, method, ag.data.digits(limit=80), seed=seed, **QUICK).genotype
        own = crossed(str(found)) if NAMES.index(str(found)) % 100 else None
        told = part.compare(SPACE, found, SHAPE)
        assert own is None or own <= 1000 * target
        assert "on crossed in its table" in told
        assert told.endswith("of 10 ms: within the target")


def test_a_cell_that_the_table_lacks_is_predicted(path: str) -> None:
    model = CostPenalty("latency", "50ms", device="crossed", table=path).bound(SPACE, SHAPE).model
    assert model is not None
    known, missing = (ag.Genotype.parse(NAMES[code]) for code in (7, 300))
    assert model.cost(known) == pytest.approx(crossed(NAMES[7]) / 1000)
    assert model.cost(missing) == model.predicted(missing)


def test_a_resumed_search_keeps_the_fit(path: str) -> None:
    part = CostPenalty("latency", "50ms", device="crossed", table=path)
    kept = {**part.bound(SPACE, SHAPE).measured, "fixed": 0.001}
    again = part.bound(SPACE, SHAPE, kept)
    assert again.model is not None
    assert again.measured == kept
    assert again.model.known is not None


def test_wrong_settings_are_sentences(path: str) -> None:
    with pytest.raises(UserError, match=r"are about latencies, and its metric is madds; set cost-penalty.metric=lat"):
        CostPenalty("madds", "1M", device="sum")
    with pytest.raises(UserError, match=r"target of CostPenalty is 1 ms, .* takes 3 ms on sum; give a higher target\."):
        CostPenalty("latency", "1ms", device="sum", table=path).bound(SPACE, SHAPE)
    with pytest.raises(UserError, match="has several devices; name one of sum, crossed"):
        CostPenalty("latency", "9ms", table=path).bound(SPACE, SHAPE)


def test_the_command_searches_queries_and_lists(archgrad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_latencies(tmp_path / "data" / "nasbench201" / "latency.csv")
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path / "data"))
    tiny = ["--channels", 2, "--cells", 1, "--limit", 80, "--batch-size", 20, "--epochs", 1, "--out", "run"]
    budget = [f"cost-penalty.{one}" for one in ("metric=latency", "device=crossed", "target=9ms")]
    out = archgrad.run("search", *tiny, "--regularizer", "+cost-penalty", *(x for b in budget for x in ("--set", b)))
    assert "ms on crossed in its table (" in out
    assert [*json.loads(archgrad.run("query", "run", "--device", "sum", "--json"))["latency_ms"]] == ["sum"]
    assert "crossed         missing" in archgrad.run("query", NAMES[300], "--device", "all")
    accuracies = tmp_path / "accuracy.csv"
    header, ones = "arch,cifar10_test,cifar100_test,imagenet16_test", "1,1,1"
    accuracies.write_text("\n".join([header, *(f"{name},{ones}" for name in NAMES)]) + "\n")
    assert "devices: --device all" in archgrad.run("query", NAMES[5], "--table", accuracies)
    assert archgrad.run("list", "devices").splitlines()[0].split()[0] == "sum"
    out = archgrad.run("list", "devices", "sum")
    assert "additive fit to 15625 all cells: R² 1.0000" in out
    assert "did you mean 'sum'" in archgrad.error("query", NAMES[0], "--device", "sun")
    assert "leave --best and --table out" in archgrad.error("query", "--best", "--device", "sum")
