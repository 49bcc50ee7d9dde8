"""The benchmark of methods measures what it says; how fast anything is is not for tests."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from archgrad.benchmarks import methods
from archgrad.benchmarks.speed import Case
from archgrad.errors import UserError
from archgrad.recipes import RECIPES, named
from archgrad.schedule import Schedule

TINY = Case("nasbench201", 4, 1, 8, 4)
RANDOM = replace(named("gaea"), schedule=Schedule(level="single", updates="random"))


@pytest.fixture(scope="module")
def measured():
    threads, lines = torch.get_num_threads(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "_CASES", (TINY,))
        report = methods.run(None, 1, lines.append)
    assert torch.get_num_threads() == threads
    return {row.method: row for row in report.rows}, lines, report


def test_every_recipe_is_measured_in_iterations_of_darts(measured):
    rows, _, report = measured
    assert [row.method for row in report.rows] == list(RECIPES)
    assert rows["darts"].cost == 1.0
    for row in report.rows:
        assert row.space == "nasbench201"
        assert row.cost > 0
        assert all(step.milliseconds > 0 for step in row.steps.values())
        expected = sum(step.per_iteration * step.milliseconds for step in row.steps.values())
        assert row.milliseconds == pytest.approx(expected)


def test_every_loss_is_of_as_many_images(measured):
    for row in measured[0].values():
        assert (row.images_per_architecture_step, row.images_per_weight_step) == (4, 4)
    assert measured[0]["darts"].training_batches == 0
    assert measured[0]["darts-2nd"].training_batches == 1


def test_operations_are_those_that_a_cell_computes(measured):
    rows = measured[0]
    edges, choices = 6, 5
    drawn = {"gdas", "gaea-gdas", "random-nas"}
    assert {name for name, row in rows.items() if row.operations == edges} == drawn
    assert all(row.operations == edges * choices for name, row in rows.items() if name not in drawn)
    assert {name for name, row in rows.items() if row.channels == 0.25} == {"pc-darts", "gaea-pc-darts"}


def test_two_kinds_of_cells_are_counted_together():
    search = methods.TimedSearch.of(Case("darts", 2, 3, 8, 4), named("random-nas"))
    assert [block.cells for block in search.setup.space.blocks] == [1, 2]
    assert methods._operations(search.setup.space, search.steps()["weights"]()) == 14
    assert methods._operations(search.setup.space, [None]) == 14 * 8


def test_lines_come_in_the_order_of_the_report_and_stand_under_the_header(measured):
    _, lines, report = measured
    assert lines[1] == methods.HEADER
    assert lines[2:-1] == [str(row) for row in report.rows]
    assert "4 images in each α step and each weight step" in lines[0]
    assert max(map(len, lines)) <= 120
    for row in report.rows:
        assert len(str(row)) == len(methods.HEADER)
        assert [i for i, c in enumerate(str(row)) if c == "|"] == [i for i, c in enumerate(methods.HEADER) if c == "|"]


@pytest.mark.parametrize("method", [*(named(name) for name in RECIPES), RANDOM], ids=lambda method: method.name)
def test_shares_are_what_the_schedule_does_in_the_long_run(method):
    schedule, steps = replace(method.schedule, warmup_epochs=0), 2000
    moves = [schedule.moves(index) for index in range(steps)]
    found = methods.shares(method)
    alpha = found.get("architecture", 0) + found.get("joint", 0)
    expected = sum(move.architecture for move in moves) / steps if method.arch_optimizer.moves else 0
    times = schedule.inner_steps  # an iteration has as many steps of the weights
    assert alpha == pytest.approx(times * expected, abs=0.03)
    weights = found.get("weights", 0) + found.get("joint", 0)
    assert weights == pytest.approx(times * sum(move.weights for move in moves) / steps, abs=0.03)
    assert ("joint" in found) == (schedule.updates == "simultaneous")


@pytest.mark.parametrize("name", ["gdas", "gaea-gdas", "random-nas"])
def test_drawn_architectures_have_every_operation_once_on_every_edge(name):
    weight_steps = methods.TimedSearch.of(TINY, named(name)).steps()["weights"]
    marks = [active["cell"] for active in weight_steps()]
    assert torch.stack(marks).sum(0).tolist() == torch.ones(3, 6, 5).tolist()
    assert all(torch.equal(*pair) for pair in zip(marks, [active["cell"] for active in weight_steps()], strict=True))


def test_steps_begin_where_they_began_before():
    search = methods.TimedSearch.of(TINY, named("xnas"))
    step, ends = search.steps()["architecture"], []
    start = {name: value.clone() for name, value in search.starts[0].items()}
    for _ in range(2):
        step()
        ends.append(search.state.alpha["cell"])
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], start["cell"])
    assert torch.equal(search.starts[0]["cell"], start["cell"])


def test_methods_are_measured_on_spaces_chosen_by_name():
    assert [case.space for case in methods.cases()] == ["nasbench201", "darts"]
    assert [case.space for case in methods.cases("darts")] == ["darts"]
    with pytest.raises(UserError, match="Choose from: nasbench201, darts"):
        methods.cases("s1")


@pytest.fixture
def only_two(monkeypatch):
    monkeypatch.setattr(methods, "_CASES", (TINY,))
    monkeypatch.setattr(methods, "measure", partial(methods.measure, names=("darts", "snas")))


def test_the_command_prints_a_table_or_json(archgrad, only_two):
    arguments = ("bench", "--methods", "--space", "nasbench201", "--repeats", 1)
    code, out, _ = archgrad(*arguments)
    assert code == 0
    assert out.splitlines()[1] == methods.HEADER
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["darts", "snas"]
    code, out, err = archgrad(*arguments, "--no-memory", "--json")
    assert (code, methods.HEADER in err) == (0, True)
    content = json.loads(out)
    assert [case["batch"] for case in content["cases"]] == [4]
    darts, snas = content["rows"]
    assert (darts["method"], darts["cost"], sorted(darts["steps"])) == ("darts", 1.0, ["architecture", "weights"])
    assert snas["steps"]["joint"]["per_iteration"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "--hypergradients"], "--hypergradients and --methods measure different things; choose one."),
        (["--methods", "--memory"], "--memory is not measured with --methods"),
        (["--methods", "--space", "dart"], "did you mean 'darts'? Choose from: nasbench201, darts"),
    ],
)
def test_the_command_refuses_what_methods_are_not_measured_with(archgrad, arguments, sentence):
    code, out, err = archgrad("bench", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
