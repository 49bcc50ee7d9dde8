"""What a search returns to its caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import archgrad as ag

SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
DATA = ag.data.digits(limit=60)


def searched(method: ag.Method, **options: Any) -> ag.SearchResult:
    return ag.search(SPACE, method, DATA, batch_size=20, **{"epochs": 2, **options})


@pytest.fixture(scope="module")
def found() -> ag.SearchResult:
    return searched(ag.recipes.gaea())


def collapsed(result: ag.SearchResult, **more: Any) -> ag.SearchResult:
    """Return the result with a history of skip connections alone."""
    record = {"skip_share": 1.0, "entropy": 0.1, "entropy_max": 1.4, "lead": 0.9, "movement": 1.0, **more}
    genotype = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
    history = [record | {"epoch": epoch, "genotype": genotype} for epoch in range(1, 9)]
    return replace(result, history=tuple(history), epochs=8)


def test_the_diagnosis_is_that_of_the_history(found: ag.SearchResult) -> None:
    assert found.diagnosis == ag.diagnostics.diagnose(found.history, 2)
    assert found.diagnosis.sentences


def test_the_advice_names_cures_that_the_method_lacks(found: ag.SearchResult) -> None:
    diagnosis = collapsed(found).diagnosis
    assert diagnosis.verdict == "collapsing"
    assert "--regularizer +layer-alignment" in diagnosis.advice
    assert "--method gaea" not in diagnosis.advice
    assert "layer-alignment" not in collapsed(found, switched_from=3).diagnosis.advice


def test_of_stages_the_last_is_diagnosed(found: ag.SearchResult) -> None:
    first, last = collapsed(found, stage=1).history, tuple({"stage": 2, **record} for record in found.history)
    whole = replace(found, history=(*first, *last))
    assert whole.diagnosis == found.diagnosis


def test_the_budget_says_how_far_the_architecture_may_move(found: ag.SearchResult) -> None:
    assert found.budget.startswith("α's learning rate is 0.1 × ")
    assert "×" not in searched(ag.recipes.gaea(), epochs=1, alpha_budget="off").budget


def test_without_records_of_callbacks_there_is_a_diagnosis_too() -> None:
    result = searched(ag.recipes.darts(), standard_callbacks=False, held_out=0.0)
    assert result.diagnosis.sentences


def test_a_result_shows_itself_in_a_line(found: ag.SearchResult) -> None:
    result, verdict = replace(found, seconds=1.25), found.diagnosis.verdict
    assert repr(result) == f"<SearchResult {found.genotype}, diagnosis {verdict}, 2 epochs, 1.2 seconds>"
    undecided = replace(result, history=({"epoch": 1, "genotype": None},), epochs=1)
    assert repr(undecided) == "<SearchResult no genotype, diagnosis undecided, 1 epoch, 1.2 seconds>"
