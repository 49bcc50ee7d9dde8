"""The benchmark of hypergradients measures what it says; how fast anything is is not for tests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from archgrad.benchmarks import hypergradient_memory, hypergradients, speed
from archgrad.benchmarks.midway import Midway
from archgrad.benchmarks.timing import in_turns
from archgrad.errors import UserError
from archgrad.hypergradients import FirstOrder, ReverseMode

TINY = speed.Case("nasbench201", 2, 1, 8, 4)
NAMES = ("Unrolled", "Neumann K=1", "TruncatedReverse T=4 keep=2")
ROW = hypergradients.Row("darts", "Unrolled", "exact", 10.0, 9.0, 1.0, 1.0, 0.5)


@pytest.fixture(scope="module")
def rows():
    threads = torch.get_num_threads()
    found = list(hypergradients.measure(TINY, repeats=1, names=NAMES))
    assert torch.get_num_threads() == threads
    return found


def test_every_estimator_is_measured_with_every_kind_of_products(rows):
    first, *others = rows
    assert (first.estimator, first.cost, first.second_size) == ("FirstOrder", 1.0, 0.0)
    expected = [(name, kind) for name in NAMES for kind in ("exact", "finite", "forward")]
    assert [(row.estimator, row.products) for row in others] == expected
    assert all(row.milliseconds > 0 and row.cost > 0 and row.second_size > 0 for row in others)


def test_estimates_are_compared_with_exact_products(rows):
    for row in rows:
        if row.products == "exact":
            assert (row.cosine, row.second_cosine) == pytest.approx((1, 1), abs=1e-6)
        assert row.cosine >= 0.99
        assert row.second_cosine >= 0.99


def test_rows_stand_under_their_headers(rows):
    memory = hypergradient_memory.MemoryRow(
        "nasbench201", "TruncatedReverse(steps=T, keep=1)", "exact", {1: 1.0, 4: 2.0, 16: 3.0}
    )
    for header, row in [(hypergradients.HEADER, rows[-1]), (hypergradient_memory.HEADER, memory)]:
        assert len(str(row)) == len(header) <= 120
        assert str(row).index("|") == header.index("|")


def test_spaces_are_chosen_by_name():
    assert [case.space for case in hypergradients.cases()] == ["nasbench201", "darts"]
    assert [case.space for case in hypergradients.cases("darts")] == ["darts"]
    assert hypergradient_memory.case_for(None).space == "nasbench201"
    assert hypergradient_memory.case_for("darts").space == "darts"
    with pytest.raises(UserError, match="Choose from: nasbench201, darts"):
        hypergradients.cases("s1")


def test_a_bar_is_held_by_the_cheapest_row_that_is_true():
    false = replace(ROW, products="finite", cost=2.0, cosine=0.99)
    cheap = replace(ROW, products="forward", cost=5.0, cosine=0.9995)
    (bar,) = hypergradients.bars([ROW, false, cheap, replace(ROW, estimator="T1T2")])
    assert (bar.row, bar.met) == (cheap, True)
    assert "met, 5.00x with forward products" in str(bar)
    (bar,) = hypergradients.bars([ROW, false])
    assert (bar.row, bar.met) == (ROW, False)
    (bar,) = hypergradients.bars([false])
    assert (bar.row, bar.met) == (None, False)
    assert "MISSED, no products with a cosine of 0.999" in str(bar)


def test_a_run_tells_every_row_and_reports_plain_values(monkeypatch):
    lines = []
    monkeypatch.setattr(hypergradients, "_CASES", (TINY, replace(TINY, space="darts", cells=3)))
    monkeypatch.setattr(hypergradients, "measure", lambda case, repeats, names: [replace(ROW, space=case.space)])
    monkeypatch.setattr(hypergradient_memory, "LENGTHS", (1,))
    monkeypatch.setattr(hypergradient_memory, "in_new_process", lambda measure, *arguments: 7.0)
    report = hypergradients.run(None, 1, True, lines.append)
    assert all(str(row) in lines for row in (*report.rows, *report.memory, *report.bars))
    assert max(map(len, lines)) <= 120
    content = json.loads(json.dumps(report.to_dict()))
    assert [case["space"] for case in content["cases"]] == ["nasbench201", "darts"]
    assert [bar["met"] for bar in content["bars"]] == [False, False]
    assert content["memory_case"]["space"] == "nasbench201"
    assert {row["estimator"] for row in content["memory"]} >= {"ReverseMode(steps=T)", "Neumann(terms=T)"}
    assert content["memory"][0]["megabytes"] == {"1": 7.0}


def test_peak_memory_is_measured_in_this_process():
    assert hypergradient_memory.peak(TINY, ReverseMode(steps=2)) >= 0


def test_the_supernet_has_learned_something_and_has_momentum():
    start, midway = Midway.of(TINY, 1, training_steps=0), Midway.of(TINY, 1, training_steps=8)
    losses = [place.problem.outer(place.weights, place.alpha, place.outer).item() for place in (start, midway)]
    assert losses[1] < losses[0]
    assert start.descent.velocity is None
    assert set(midway.descent.velocity) == set(midway.weights)
    again = Midway.of(TINY, 1, training_steps=8).estimate(FirstOrder())["cell"]
    assert torch.equal(again, midway.estimate(FirstOrder())["cell"])


def test_patience_ends_the_repeats_but_never_before_one_after_the_warm_up():
    calls = []
    in_turns([lambda: calls.append("a"), lambda: calls.append("b")], repeats=3)
    assert calls == list("abababab")
    calls.clear()
    timed = in_turns([lambda: calls.append("a") or "result"], repeats=3, patience=-1)
    assert calls == ["a", "a"]
    assert timed[0].result == "result"
    assert timed[0].milliseconds >= 0
