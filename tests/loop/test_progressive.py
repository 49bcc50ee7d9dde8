"""P-DARTS: stages that are ordinary runs, each deeper and with fewer choices than the one before."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import Event, SearchStarted, StageStarted, StepFinished, listening
from same_bits import assert_same
from varied_spaces import VARIED_SPACES

import archgrad as ag
from archgrad.arch_optimizers import Adam, ExponentiatedGradient
from archgrad.callbacks import EigenvalueStop
from archgrad.config import SearchConfig, config_to_toml, read_config
from archgrad.config.naming import named_config
from archgrad.config.resolve import method_of, resolve, space_of
from archgrad.diagnostics import Diagnosis
from archgrad.discretizers import Argmax, BestSampled, Perturbation, SupernetEvaluation
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.errors import SearchInterrupted, UserError
from archgrad.loop import SearchResult
from archgrad.loop.stages import reopen, stage_parts
from archgrad.method.progressive import Progressive, Stage, kept_choices
from archgrad.method.reactions import check_reaction
from archgrad.parts.knobs import knobs_of, with_settings
from archgrad.recipes import lambda_darts, named, p_darts, random_nas
from archgrad.relaxations import Concrete, Dirichlet, GumbelHard, Relaxation, Simplex, Softmax
from archgrad.spaces import DARTS, DecisionBlock, NASBench201, Row, SearchSpace, edge_rows
from archgrad.supernet import MixedCell
from archgrad.system.warn_once import forget_warnings

DATA = ag.data.digits(limit=40)
TINY = Progressive(cells=(None,))
"""The published stages at the space's own depth."""
SKIPS = ("none", "skip_connect", "conv")


def staged(*stages: Stage, max_skips: int | None = 2) -> Progressive:
    cells, keep, skip_dropout, partial = zip(*map(astuple, stages), strict=True)
    return Progressive(cells, keep, skip_dropout, partial, max_skips)


def tiny(plan: Progressive = TINY, **changes: Any) -> ag.Method:
    return replace(p_darts(), progressive=plan, schedule=ag.Schedule(), **changes)


def searched(method: ag.Method | None = None, space: SearchSpace | None = None, **settings: Any) -> SearchResult:
    settings = {"epochs": 1, "batch_size": 10, "standard_callbacks": False, "seed": 3, **settings}
    return ag.search(space or NASBench201(channels=2, cells_per_stage=1), method or tiny(), DATA, **settings)


class Watch:
    """Keeps what each stage begins with."""

    def __init__(self) -> None:
        self.stages: list[StageStarted] = []
        self.weights: list[dict[str, torch.Tensor]] = []
        self.alpha: list[dict[str, torch.Tensor]] = []
        self.steps = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self.stages.append(event)
        elif isinstance(event, SearchStarted):
            self.weights.append({name: value.clone() for name, value in event.state.supernet.state_dict().items()})
            self.alpha.append(dict(event.state.alpha))
        self.steps += isinstance(event, StepFinished)


# What is kept


def test_each_row_keeps_its_strongest_choices_in_their_order() -> None:
    rows = (Row(1, 0, ("a", "b", "c", "d")), Row(2, 0, ("a", "b", "c", "d")), Row(2, 1, ("b", "d")))
    table = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.4, 0.1, 0.3, 0.2], [0.9, 0.1, 0.0, 0.0]])
    block = DecisionBlock("cell", 1, rows)
    assert kept_choices(block, table, 2) == [("b", "d"), ("a", "c"), ("b", "d")]
    assert kept_choices(block, table, 1) == [("b",), ("a",), ("b",)]
    assert kept_choices(block, table, 8) == [row.choices for row in rows]


def test_of_equals_the_first_are_kept() -> None:
    block = DecisionBlock("cell", 1, (Row(1, 0, ("a", "b", "c", "d")),))
    assert kept_choices(block, torch.tensor([[0.25, 0.25, 0.25, 0.25]]), 3) == [("a", "b", "c")]
    assert kept_choices(block, torch.tensor([[0.2, 0.2, 0.4, 0.2]]), 2) == [("a", "c")]


def test_none_is_a_choice_like_the_others_but_never_the_last() -> None:
    rows = (Row(1, 0, ("none", "skip_connect", "conv")),)
    block = DecisionBlock("normal", 1, rows, excluded=frozenset({"none"}))
    strong, weak = torch.tensor([[0.6, 0.1, 0.3]]), torch.tensor([[0.1, 0.5, 0.4]])
    assert kept_choices(block, strong, 2) == [("none", "conv")]
    assert kept_choices(block, weak, 2) == [("skip_connect", "conv")]
    assert kept_choices(block, strong, 1) == [("conv",)]


def test_a_node_keeps_what_it_has_to_pick() -> None:
    block = DecisionBlock("cell", 1, (Row(2, None, ("0", "1", "2"), picks=2),))
    assert kept_choices(block, torch.tensor([[0.2, 0.3, 0.5]]), 1) == [("1", "2")]


# The limit of skip connections


class Skips(SearchSpace):
    """Two blocks of edges with three choices; nothing is built from it."""

    name = "skips"
    depth_knob = "channels"

    @property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        rows = edge_rows([(1, [0]), (2, [0, 1]), (3, [0])], SKIPS)
        return tuple(self.apply_restriction(DecisionBlock(name, 1, rows)) for name in ("normal", "reduce"))

    weights = property(lambda self: ag.WeightTraining())  # type: ignore[assignment]

    def build(self, *args: object) -> Any:
        raise AssertionError


def limited(table: list[list[float]], most: int, space: SearchSpace | None = None) -> tuple[list[str], list[str]]:
    probabilities = {"normal": torch.tensor(table), "reduce": torch.tensor(table)}
    copy = probabilities["normal"].clone()
    genotype = LimitedSkips(Argmax(), most).select(space or Skips(), probabilities)
    assert torch.equal(probabilities["normal"], copy)
    normal, reduce = ([decision.choice for decision in genotype[name]] for name in ("normal", "reduce"))
    return normal, reduce


def test_the_weakest_skips_of_a_normal_cell_give_way_to_the_next_best() -> None:
    table = [[0.1, 0.6, 0.3], [0.3, 0.5, 0.2], [0.0, 0.9, 0.1], [0.1, 0.2, 0.7]]
    all_of_them = ["skip_connect", "skip_connect", "skip_connect", "conv"]
    assert limited(table, 3) == (all_of_them, all_of_them)
    assert limited(table, 2) == (["skip_connect", "none", "skip_connect", "conv"], all_of_them)
    assert limited(table, 1) == (["conv", "none", "skip_connect", "conv"], all_of_them)
    assert limited(table, 0) == (["conv", "none", "conv", "conv"], all_of_them)


def test_of_equally_weak_skips_the_first_goes() -> None:
    table = [[0.1, 0.6, 0.3], [0.1, 0.5, 0.4], [0.1, 0.5, 0.4], [0.1, 0.5, 0.4]]
    assert limited(table, 3)[0] == ["skip_connect", "conv", "skip_connect", "skip_connect"]
    assert limited(table, 2)[0] == ["skip_connect", "conv", "conv", "skip_connect"]


def test_an_edge_that_loses_its_skip_may_lose_its_place() -> None:
    """In the DARTS space a node keeps two edges: the one without its skip may give way to another."""
    space = DARTS(channels=4, cells=3)
    skip, conv = (space.blocks[0].rows[0].choices.index(name) for name in ("skip_connect", "sep_conv_3x3"))
    table = torch.full((14, 8), 0.01)
    table[:, conv] = 0.2
    table[[0, 1, 2], skip] = torch.tensor([0.5, 0.6, 0.4])  # 2<-0, 2<-1, 3<-0
    table[4, conv] = 0.3  # 3<-2
    probabilities = {"normal": table, "reduce": table}
    before, after = (one.select(space, probabilities)["normal"] for one in (Argmax(), LimitedSkips(Argmax(), 2)))
    assert [str(one) for one in before.inputs_of(3)] == ["skip_connect@3<-0", "sep_conv_3x3@3<-2"]
    assert [str(one) for one in after.inputs_of(3)] == ["sep_conv_3x3@3<-0", "sep_conv_3x3@3<-2"]
    table[3, conv] = 0.25  # 3<-1 is now stronger than 3<-0 without its skip
    after = LimitedSkips(Argmax(), 2).select(space, probabilities)["normal"]
    assert [str(one) for one in after.inputs_of(3)] == ["sep_conv_3x3@3<-1", "sep_conv_3x3@3<-2"]


def test_where_there_is_nothing_but_skips_they_stay_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    forget_warnings()
    space = Skips().restricted({"normal": [("skip_connect",)] * 2 + [SKIPS] * 2})
    table = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.1, 0.7, 0.2], [0.1, 0.7, 0.2]]
    found = LimitedSkips(Argmax(), 1).select(space, {"normal": torch.tensor(table), "reduce": torch.tensor(table)})
    assert [one.choice for one in found["normal"]] == ["skip_connect", "skip_connect", "conv", "conv"]
    assert "block 'normal' keeps 2 skip connections, more than the 1 allowed" in caplog.text


def test_a_derivation_by_samples_is_limited_too() -> None:
    evaluation = SupernetEvaluation(
        lambda mixture, batch: float(mixture["normal"][..., 1].sum()), torch.Generator().manual_seed(0)
    )
    table = {name: torch.tensor([[0.1, 0.8, 0.1]] * 4) for name in ("normal", "reduce")}
    genotype = LimitedSkips(BestSampled(samples=20), 2).select(Skips(), table, evaluation)
    assert genotype["normal"].count("skip_connect") <= 2


# Stages


def test_the_published_stages() -> None:
    method = named("p-darts")
    assert method.progressive == Progressive()
    assert (method.weights["epochs"], method.schedule.warmup_epochs) == (25, 10)
    plain = p_darts(priors=False)
    assert plain.progressive == Progressive(skip_dropout=(0.0, 0.0, 0.0), max_skips=None)
    assert lambda_darts(base=plain).progressive == plain.progressive


def test_a_stage_has_its_own_share_of_the_channels() -> None:
    plan, space = staged(Stage(partial=4), Stage(keep=3, partial=2), Stage(keep=3)), DARTS(channels=4, cells=3)
    result = searched(tiny(plan), space, batch_size=20)
    assert [tiny(plan).in_stage(number, space).supernet.partial for number in range(3)] == [4, 2, 1]
    assert {cell.partial for cell in result.supernet.modules() if isinstance(cell, MixedCell)} == {1}


def test_stages_grow_deeper_with_fewer_operations() -> None:
    watch = Watch()
    stages = (Stage(3, 8), Stage(4, 5, 0.4), Stage(5, 3, 0.7))
    result = searched(tiny(staged(*stages)), DARTS(channels=2, cells=8), callbacks=listening(watch), batch_size=20)
    assert [(one.number, one.stages) for one in watch.stages] == [(1, 3), (2, 3), (3, 3)]
    spaces = [one.space for one in watch.stages]
    assert [sum(block.cells for block in space.blocks) for space in spaces] == [3, 4, 5]
    assert [{len(row.choices) for block in space.blocks for row in block.rows} for space in spaces] == [{8}, {5}, {3}]
    stage_methods = [tiny(staged(*stages)).in_stage(number, space) for number, space in enumerate(spaces)]
    assert [method.supernet.skip_dropout for method in stage_methods] == [0.0, 0.4, 0.7]
    for before, after in pairwise(spaces):
        for old, new in zip(before.blocks, after.blocks, strict=True):
            assert all(set(b.choices) <= set(a.choices) for a, b in zip(old.rows, new.rows, strict=True))
    assert [(record["stage"], record["epoch"]) for record in result.history] == [(1, 1), (2, 2), (3, 3)]
    assert result.mixture["normal"].shape == (3, 14, 3)
    DARTS(channels=2, cells=8).check(result.genotype)
    assert result.genotype["normal"].count("skip_connect") <= 2


def test_a_stage_is_an_ordinary_search_of_what_the_one_before_kept() -> None:
    watch = Watch()
    plan = staged(Stage(keep=5), Stage(keep=2), max_skips=None)
    whole = searched(tiny(plan), callbacks=listening(watch))
    method, (first, second) = replace(tiny(plan), progressive=None), [one.space for one in watch.stages]
    alone = searched(method, first)
    assert [row.choices for row in second.blocks[0].rows] == kept_choices(first.blocks[0], alone.mixture["cell"][0], 2)
    again = Watch()
    last = searched(method, second, callbacks=listening(again))
    assert all(torch.equal(value, watch.weights[1][name]) for name, value in again.weights[0].items())
    assert torch.equal(again.alpha[0]["cell"], watch.alpha[1]["cell"])
    assert torch.equal(last.alpha["cell"], whole.alpha["cell"])
    assert last.genotype == whole.genotype


@pytest.mark.parametrize(
    "relaxation",
    [Softmax(), Simplex(), Simplex(skip_zero=True), GumbelHard(), Concrete(per_cell=True), Dirichlet()],
    ids=lambda member: type(member).__name__,
)
def test_it_composes_with_every_relaxation_that_learns(relaxation: Relaxation) -> None:
    optimizer = Adam() if relaxation.domain == "real" else ExponentiatedGradient()
    result = searched(tiny(relaxation=relaxation, arch_optimizer=optimizer), batch_size=20)
    assert result.alpha["cell"].shape == (6, 3)
    assert result.genotype["cell"].count("skip_connect") <= 2


@pytest.mark.parametrize("name", [name for name in VARIED_SPACES if name not in ("nasbench201", "darts")])
def test_every_space_is_searched_at_its_own_depth(name: str) -> None:
    space = ag.spaces.SPACES.constructor(name)(channels=2, cells=3)
    plan = staged(Stage(keep=8), Stage(keep=2))
    result = searched(tiny(plan), space, batch_size=20)
    space.check(result.genotype)
    for block, cell in result.genotype.blocks:
        assert block == "reduce" or cell.count("skip_connect") <= 2


def test_a_search_with_partial_channels_and_edge_weights_narrows_operations_only() -> None:
    options = ag.SupernetOptions(partial=2, edge_weights=True)
    result = searched(tiny(supernet=options), NASBench201(channels=4, cells_per_stage=1), batch_size=20)
    assert result.alpha["cell"].shape == (6, 3)
    assert result.alpha["cell.edges"].shape == (3, 3)


def test_what_is_derived_once_is_derived_by_the_last_stage_alone() -> None:
    method = tiny(staged(Stage(keep=5), Stage(keep=2), max_skips=None), discretizer=Perturbation(tune_epochs=0))
    parts = resolve(SearchConfig(space=NASBench201(channels=2, cells_per_stage=1), method=method, epochs=1))
    found = [stage_parts(parts, number, parts.space).method.discretizer for number in (1, 2)]
    assert found == [Argmax(), method.discretizer]
    NASBench201(channels=2, cells_per_stage=1).check(searched(method, batch_size=20).genotype)


# Refusals


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Progressive(keep=()), "progressive.keep has 0 values, but there are 3 stages"),
        (lambda: staged(Stage(keep=3), Stage(keep=5)), "keep 3, 5 choices .* at most the keep of the one before"),
        (lambda: Progressive(max_skips=-1), "progressive.max_skips is -1; it must be at least 0"),
        (lambda: Stage(keep=0), "keep of a stage is 0; it must be at least 1"),
        (lambda: Stage(cells=0), "cells of a stage is 0"),
        (lambda: Stage(skip_dropout=1.0), "skip_dropout of a stage is 1.0; .* less than 1"),
        (lambda: replace(random_nas(), progressive=TINY), "Fixed never moves the architecture; leave progressive out"),
        (lambda: tiny(stop=EigenvalueStop()), "EigenvalueStop ends a stage .* leave stop or progressive out"),
        (lambda: tiny(supernet=ag.SupernetOptions(skip_dropout=0.1)), "supernet.skip_dropout is 0.1, but the stages"),
        (
            lambda: tiny(discretizer=Perturbation()),
            r"Perturbation does not decide by probabilities, .* \(progressive.max_skips=none\)",
        ),
    ],
)
def test_impossible_stages_are_refused_in_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("plan", "space", "sentence"),
    [
        (
            staged(Stage(keep=3)),
            NASBench201(channels=2, cells_per_stage=1),
            "keeps 3 choices on each row, but .* offers up to 5",
        ),
        (
            staged(Stage(3), Stage(1, 3)),
            DARTS(channels=2, cells=3),
            "cells of the space 'darts' is 1; give at least 2",
        ),
        (Progressive(), ag.spaces.AmendedA2(channels=2), "decides each cell separately, .* the same number of cells"),
        (Progressive(), ag.spaces.Macro(channels=2), "decides each cell separately, .* the same number of cells"),
    ],
)
def test_spaces_that_do_not_fit_are_refused_before_anything_is_trained(
    plan: Progressive, space: SearchSpace, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("archgrad.loop.run.Run.step", lambda *_, **__: pytest.fail("training began"))
    with pytest.raises(UserError, match=sentence):
        searched(tiny(plan), space, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_is_checked_at_the_depths_of_its_stages() -> None:
    """Three cells of `darts` are one normal cell, and two others reduce; alignment needs two that are alike."""
    deep = staged(Stage(5, 8), Stage(6, 3))
    shallow_at_last = staged(Stage(5, 8), Stage(3, 3))
    aligned = lambda_darts(base=tiny(deep))
    aligned.check(DARTS(channels=2, cells=3))
    replace(aligned, progressive=None).check(DARTS(channels=2, cells=5))
    with pytest.raises(UserError, match="LayerAlignment aligns cells that share their decisions"):
        replace(aligned, progressive=None).check(DARTS(channels=2, cells=3))
    with pytest.raises(UserError, match="LayerAlignment aligns cells that share their decisions"):
        replace(aligned, progressive=shallow_at_last).check(DARTS(channels=2, cells=8))
    check_reaction("switch", tiny(deep), DARTS(channels=2, cells=3))
    with pytest.raises(UserError, match=r"on_collapse is 'switch', .* no two do"):
        check_reaction("switch", tiny(shallow_at_last), DARTS(channels=2, cells=8))


def test_a_stage_may_switch_and_the_whole_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def judge(records: Any, epochs: int, cures: Any = ()) -> Diagnosis:
        bad = len(records) > 1
        return Diagnosis("collapsing" if bad else "healthy", 2 if bad else None, ("bad",), "act", usable=not bad)

    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", judge)
    plan = staged(Stage(2, 5), Stage(2, 3))
    settings = {"epochs": 2, "batch_size": 20, "on_collapse": "switch"}
    result = searched(tiny(plan), out=tmp_path, **settings)
    assert [record.get("switched_from") for record in result.history] == [None, 2, None, 2]
    assert [record["epoch"] for record in result.history] == [1, 2, 3, 4]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["switched"] == [{"stage": 1, "switched_from": 2}, {"stage": 2, "switched_from": 2}]
    assert_same(result, searched(tiny(plan), **settings))
    assert_same(result, searched(tiny(plan), out=tmp_path, resume=True, **settings))


# Folders


def shown(out: Path) -> list[tuple[int, int]]:
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(record["stage"], record["epoch"]) for record in records]


def test_the_folder_of_the_whole_holds_what_a_run_has(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = searched(out=out, epochs=2, batch_size=20)
    assert shown(out) == [(1, 1), (1, 2), (2, 3), (2, 4), (3, 5), (3, 6)]
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["stages"], summary["epochs"], summary["genotype"]) == (3, 6, str(result.genotype))
    assert ag.Genotype.parse((out / "genotype.json").read_text()) == result.genotype
    assert sorted(entry.name for entry in out.glob("stage-*")) == ["stage-1", "stage-2", "stage-3"]
    with pytest.raises(UserError, match="already holds a search"):
        searched(out=out, epochs=2, batch_size=20)


posix = pytest.mark.skipif(sys.platform == "win32", reason="the signals are those of POSIX")


@pytest.fixture(scope="module")
def whole() -> SearchResult:
    """The search that was never interrupted."""
    return searched()


@posix
@pytest.mark.parametrize("at", [1, 2, 3, 6])
def test_a_search_stopped_in_any_stage_goes_on_to_the_same_bits(at: int, tmp_path: Path, whole: SearchResult) -> None:
    """Two steps per stage: in the middle of an epoch, at the end of a stage, and at the end of the search."""
    watch = Watch()

    def stop(event: Event) -> None:
        watch(event)
        if isinstance(event, StepFinished) and watch.steps == at:
            os.kill(os.getpid(), signal.SIGINT)

    stage = (at + 1) // 2
    with pytest.raises(SearchInterrupted, match=rf"of stage {stage} of 3; continue with `archgrad resume {tmp_path}`"):
        searched(out=tmp_path, interruptible=True, callbacks=listening(stop))
    assert not (tmp_path / "summary.json").exists()
    again = Watch()
    resumed = searched(out=tmp_path, resume=True, callbacks=listening(again))
    assert again.steps == 6 - at
    assert [one.number for one in again.stages] == list(range(at // 2 + 1, 4))
    assert_same(whole, resumed)
    assert shown(tmp_path) == [(1, 1), (2, 2), (3, 3)]


def test_a_search_killed_in_the_second_stage_goes_on_from_its_last_checkpoint(
    tmp_path: Path, whole: SearchResult
) -> None:
    def die(event: Event) -> None:
        if isinstance(event, StepFinished) and (tmp_path / "stage-2").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(out=tmp_path, callbacks=listening(die))
    assert shown(tmp_path) == [(1, 1)]
    (tmp_path / ".metrics.jsonl.0123456789abcdef.part").touch()
    assert_same(whole, searched(out=tmp_path, resume=True))
    assert not list(tmp_path.glob(".*"))


def test_the_last_stage_that_began_is_opened_with_what_it_searches(tmp_path: Path) -> None:
    watch = Watch()

    def die(event: Event) -> None:
        watch(event)
        if isinstance(event, StepFinished) and (tmp_path / "stage-3").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(out=tmp_path, callbacks=listening(die))

    space = NASBench201(channels=2, cells_per_stage=1)
    config = SearchConfig(space=space, method=tiny(), data=DATA, epochs=1, batch_size=10, seed=3)
    begun = reopen(config, tmp_path).runs
    number, (setup, state) = len(begun), begun[-1]
    assert (number, state.epoch, state.step) == (3, 0, 0)
    assert setup.space == watch.stages[2].space
    assert all(torch.equal(value, watch.weights[2][name]) for name, value in state.supernet.state_dict().items())
    for entry in (tmp_path / "stage-3").iterdir():
        entry.unlink()
    begun = reopen(config, tmp_path).runs
    number, (setup, state) = len(begun), begun[-1]
    assert (number, state.epoch, setup.space) == (2, 1, watch.stages[1].space)


def test_a_resume_with_other_stages_is_refused(tmp_path: Path) -> None:
    plan = staged(Stage(keep=5), max_skips=2)
    searched(tiny(plan), out=tmp_path, batch_size=20)
    for other in (replace(plan, max_skips=1), staged(*plan.stages, Stage(keep=2))):
        with pytest.raises(UserError, match=r"belongs to another search: its method\."):
            searched(tiny(other), out=tmp_path, batch_size=20, resume=True)


# The command


def test_stages_have_knobs() -> None:
    assert knobs_of(Progressive()) == {
        "cells": (5, 11, 17), "keep": (8, 5, 3), "skip_dropout": (0.0, 0.4, 0.7), "partial": (None,), "max_skips": 2,
    }  # fmt: skip
    changed = with_settings(Progressive(), {"cells": "none", "skip_dropout": "0.1", "max_skips": "none"}, "progressive")
    assert changed.stages == (Stage(None, 8, 0.1), Stage(None, 5, 0.1), Stage(None, 3, 0.1))
    assert changed.max_skips is None
    with pytest.raises(UserError, match=r"progressive.keep has 2 values, but there are 3 stages"):
        with_settings(Progressive(), {"keep": "8,5"}, "progressive")


def stages_of(**values: Any) -> list[int | None]:
    plan = method_of(SearchConfig(method="p-darts", **values)).progressive
    assert plan is not None
    return [stage.cells for stage in plan.stages]


def test_the_depth_of_the_command_is_that_of_every_stage() -> None:
    assert stages_of() == [5, 11, 17]
    assert stages_of(cells=2) == [None, None, None]
    assert stages_of(cells=2, settings={"progressive.cells": "none,3,4"}) == [None, 3, 4]
    with pytest.raises(UserError, match=r"cells is 2, but stages have their own, 2, 3, 4; leave it out"):
        stages_of(cells=2, settings={"progressive.cells": "2,3,4"})
    with pytest.raises(UserError, match=r"progressive.keep cannot be set: the method 'darts' has no progressive"):
        method_of(SearchConfig(method="darts", settings={"progressive.keep": "3"}))


@pytest.mark.parametrize(
    "values", [{}, {"cells": 2}, {"settings": {"progressive.cells": "none,3,4", "progressive.keep": "8"}}]
)
def test_a_resolved_configuration_has_the_same_stages(values: dict[str, Any], tmp_path: Path) -> None:
    config = SearchConfig(method="p-darts", **values)
    space, method = space_of(config), method_of(config)
    resolved = named_config(resolve(config), DATA)
    (tmp_path / "config.toml").write_text(config_to_toml(resolved))
    read = SearchConfig(**read_config(tmp_path / "config.toml"))
    assert (space_of(read), method_of(read)) == (space, method)
    assert (read.epochs, read.all_epochs) == (25, 75)


def test_the_command_searches_in_stages(archgrad: Any, tmp_path: Path) -> None:
    asked = ["--method", "p-darts", "--channels", 2, "--limit", 40, "--epochs", 1, "--batch-size", 20, "--out", "run"]
    stages = ["--set", "progressive.cells=1", "--set", "progressive.keep=5,3", "--set", "progressive.skip_dropout=0.1"]
    code, out, err = archgrad("search", *asked, *stages, "--set", "schedule.warmup_epochs=0")
    assert (code, err) == (0, "")
    assert "stage 1 of 2: 3 cells, up to 5 choices on each edge" in out
    assert "stage 2 of 2: 3 cells, up to 3 choices" in out
    first = json.loads((tmp_path / "run" / "summary.json").read_text())
    (tmp_path / "run" / "summary.json").unlink()
    code, out, err = archgrad("resume", "run")
    assert (code, err) == (0, "")
    assert "epoch 1/1" not in out
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == first
    assert "p-darts on nasbench201, digits, seed 0: 2 of 2 epochs" in archgrad.run("inspect", "run").splitlines()
    assert "after epoch 2" in archgrad.run("plot", "run", "--measure", "entropy")
    assert (
        archgrad.run("inspect", "run", "--discretization")
        .splitlines()[0]
        .startswith("after epoch 1 of stage 2, shared weights on 20")
    )
    found = json.loads((tmp_path / "run" / "discretization.json").read_text())
    assert (found["genotype"], found["stage"]) == (first["genotype"], 2)
    assert "is one stage of the run in run; give that directory" in archgrad.error("inspect", "run/stage-1")
    assert archgrad.run("draw", "run").splitlines()[0] == "cell"
