"""What a search returns to its caller."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Any

import pytest
import torch

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


def test_the_network_is_the_one_of_the_space(found: ag.SearchResult) -> None:
    network = found.network()
    assert sum(one.numel() for one in network.parameters()) == SPACE.cost(found.genotype, input_channels=1).parameters
    assert network(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    undecided = replace(found, history=({"epoch": 1, "genotype": None},), epochs=1)
    with pytest.raises(ag.UserError, match="has chosen no architecture"):
        undecided.network()


def test_a_trained_network_computes_what_the_supernet_does(found: ag.SearchResult) -> None:
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    network = found.network(trained=True)
    assert not network.training
    expected = found.supernet(x, found.space.one_hot(found.genotype))
    torch.testing.assert_close(network.train()(x), expected, rtol=1e-4, atol=1e-5)


def test_the_batch_norms_of_a_trained_network_know_the_training_images(found: ag.SearchResult) -> None:
    network, again = found.network(trained=True), found.network(trained=True)
    stem = network.get_submodule("stem.1")
    assert isinstance(stem, torch.nn.BatchNorm2d)
    assert stem.momentum == 0.1
    assert stem.running_mean is not None
    assert not torch.equal(stem.running_mean, torch.zeros_like(stem.running_mean))
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), again.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("method", [ag.recipes.pc_darts(), ag.recipes.p_darts()], ids=["partial", "stages"])
def test_networks_of_other_supernets(method: ag.Method) -> None:
    space = ag.spaces.DARTS(channels=4, cells=3)
    settings = {"schedule.warmup_epochs": 0, "progressive.cells": (3, 3, 3)}
    settings = settings if method.progressive else {"schedule.warmup_epochs": 0}
    result = ag.search(space, method, DATA, batch_size=20, epochs=1, settings=settings, standard_callbacks=False)
    assert result.network()(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    if method.progressive:
        assert result.network(trained=True)(torch.zeros(2, 1, 8, 8)).isfinite().all()
    else:
        with pytest.raises(ag.UserError, match="computes 1/4 of the channels"):
            result.network(trained=True)


def test_notebooks_show_the_cell(found: ag.SearchResult) -> None:
    decided = replace(found, history=({"epoch": 1, "genotype": str(found.genotype)},))
    html = decided._repr_html_()
    assert html.startswith("<p><b>SearchResult</b>: diagnosis ")
    assert escape(str(found.genotype)) in html
    assert decided._repr_svg_() == ag.report.to_svg(found.genotype)
    assert html.endswith(ag.report.to_svg(found.genotype))
    undecided = replace(found, history=({"epoch": 1, "genotype": None},))
    assert "no genotype" in undecided._repr_html_()
    assert undecided._repr_svg_() is None
