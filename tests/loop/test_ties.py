"""An exact tie is no decision: it never becomes a cell silently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import EpochFinished, measuring, on

import archgrad as ag
from archgrad import discretizers, recipes, spaces
from archgrad.discretizers import Ties, count_ties, margins
from archgrad.report import curve_of

DATA = ag.data.digits(limit=80)
SPACE = spaces.NASBench201(channels=2, cells_per_stage=1)
EVEN = {"cell": torch.full((6, 5), 0.2)}


def warm(epochs: int, **settings: Any) -> Any:
    method = recipes.gaea("darts", level="bilevel")
    method = replace(method, schedule=replace(method.schedule, warmup_epochs=2))
    return ag.search(SPACE, method, DATA, epochs=epochs, batch_size=20, **settings)


def test_rows_whose_picks_are_as_likely_as_the_next_tie() -> None:
    decided = EVEN["cell"].clone()
    decided[0] = torch.tensor([0.1, 0.3, 0.2, 0.2, 0.2])
    decided[1] = torch.tensor([0.3, 0.3, 0.2, 0.1, 0.1])
    found = count_ties(SPACE, {"cell": decided})
    assert (found, found.everywhere) == (Ties(5, 6), False)
    assert margins(SPACE, {"cell": decided}) == pytest.approx([0.1, 0, 0, 0, 0, 0])
    assert count_ties(SPACE, EVEN).everywhere
    only = SPACE.restricted({"cell": [("nor_conv_3x3",)] * 6})
    assert count_ties(only, {"cell": torch.ones(6, 1)}) == Ties(0, 0)
    assert not Ties(0, 0).everywhere


def test_what_no_genotype_may_contain_is_no_rival() -> None:
    space = spaces.DARTS()
    even = {block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in space.blocks}
    for block in space.blocks:
        even[block.name][:, block.rows[0].choices.index("none")] += 0.5
        even[block.name][:, block.rows[0].choices.index("max_pool_3x3")] += 0.1
    assert count_ties(space, even).rows == 0
    assert margins(space, even) == pytest.approx([0.1] * 28)


@pytest.mark.parametrize("name", sorted(discretizers.DISCRETIZERS))
def test_what_goes_by_probabilities_ties_and_what_goes_by_accuracies_does_not(name: str) -> None:
    member = discretizers.DISCRETIZERS.create(name)
    assert member.ties(SPACE, EVEN, last=True).everywhere == (not member.measures)
    assert member.ties(SPACE, EVEN, last=False).everywhere == (not isinstance(member, discretizers.BestSampled))


def test_a_warm_up_has_no_cell(tmp_path: Path) -> None:
    seen: list[bool] = []
    look = on(EpochFinished, lambda event: seen.append((tmp_path / "run" / "genotype.json").exists()))
    table = {"cell": 0}

    def oracle_like(snapshot: Any) -> dict[str, float]:
        table["cell"] += not snapshot.undecided
        return {}

    result = warm(4, out=tmp_path / "run", callbacks=[*look, *measuring(oracle_like)])
    assert [record["genotype"] is None for record in result.history] == [True, True, False, False]
    assert [record.get("ties") for record in result.history] == [6, 6, None, None]
    assert ["skips" in record for record in result.history] == [False, False, True, True]
    assert seen == [False, False, True, True]
    assert table["cell"] == 2
    assert not result.undecided
    assert [point.epoch for point in curve_of([result.history], "skip_share")] == [3, 4]  # plots leave them out
    assert result.history[0]["diagnosis"] == result.history[1]["diagnosis"] == "too early"


def test_a_warm_up_of_logits_has_no_cell_either() -> None:
    """They begin as small noise, which nothing has chosen."""
    method = recipes.darts()
    method = replace(method, schedule=replace(method.schedule, warmup_epochs=2))
    result = ag.search(SPACE, method, DATA, epochs=3, batch_size=20, held_out=0)
    assert [record["genotype"] is None for record in result.history] == [True, True, False]
    assert ["skips" in record for record in result.history] == [False, False, True]
    assert [record["train_chance"] for record in result.history] == [pytest.approx(10, abs=3)] * 3


class Idle(ag.arch_optimizers.Adam):
    """Takes steps that lead nowhere."""

    def step(self, alpha: Any, gradient: Any, state: Any) -> Any:
        return {name: torch.zeros_like(value) for name, value in alpha.items()}, state


def test_a_search_that_ends_with_ties_says_so(tmp_path: Path, said: list[str]) -> None:
    method = replace(recipes.darts(), arch_optimizer=Idle())
    result = ag.search(SPACE, method, DATA, epochs=1, batch_size=20, out=tmp_path / "run")
    assert result.undecided
    assert "undecided: 6 of 6 choices tie exactly at the end of the search, so the first in order is taken." in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["genotype"] is None
    assert not (tmp_path / "run" / "genotype.json").exists()


def test_the_command_shows_no_cell_where_all_choices_tie(archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ag.arch_optimizers.Adam, "step", Idle.step)
    tiny = ["--channels", 2, "--cells", 1, "--limit", 80, "--batch-size", 20, "--epochs", 1]
    out = archgrad.run("search", "--method", "darts", *tiny, "--out", "run")
    assert "diagnosis: undecided\n" in out
    assert "  undecided: all 6 choices tie exactly\n" in out
    assert "no cell: all choices tie exactly" in out
    assert "|none~0|" not in out
    assert "run has no genotype.json" in archgrad.error("draw", "run")
    assert "with this one architecture" not in out
    assert "run is undecided: all choices tie exactly" in archgrad.error("inspect", "run", "--discretization")
    assert "diagnosis: undecided" in archgrad.run("inspect", "run")
    archgrad.run("resume", "run")


def test_a_derivation_of_ones_own_has_no_ties() -> None:
    class Always(discretizers.Discretizer):
        def select(self, space: Any, probabilities: Any, evaluation: Any = None) -> ag.Genotype:
            return space.genotype({"cell": [(row, 3) for row in range(6)]})

    method = replace(recipes.random_nas(), discretizer=Always())
    result = ag.search(SPACE, method, DATA, epochs=1, batch_size=20)
    assert not result.undecided
    assert result.history[-1]["genotype"] == str(result.genotype)
