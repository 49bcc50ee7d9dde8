"""The benchmark of regularisers measures what it says; how fast anything is is not for tests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from archgrad.benchmarks import methods, regularizers
from archgrad.benchmarks.speed import Case
from archgrad.errors import UserError
from archgrad.regularizers import REGULARIZERS, AuxiliarySkip, LayerAlignment, name_of

TINY = Case("nasbench201", 2, 1, 8, 4)
ROW = regularizers.Row("darts", "LayerAlignment exact", 10.0, 20.0, 30.0, 2.15, 150.0, 1.9)


@pytest.fixture(scope="module")
def measured():
    threads, lines, asked = torch.get_num_threads(), [], []

    def pretended(measure, case, member):
        asked.append(member)
        return 30.0 if member is None else 45.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regularizers, "_CASES", (TINY,))
        patch.setattr(regularizers, "in_new_process", pretended)
        report = regularizers.run(None, 1, True, lines.append)
    assert torch.get_num_threads() == threads
    return report, lines, asked


def test_every_regulariser_is_measured_in_iterations_of_plain_darts(measured):
    report, _, asked = measured
    plain, *others = report.rows
    assert (plain.regularizer, plain.cost, plain.memory) == ("none", 1.0, 1.0)
    assert [row.regularizer for row in others] == list(regularizers.MEMBERS)
    for row in report.rows:
        assert row.space == "nasbench201"
        assert min(row.architecture, row.weights, row.cost) > 0
        assert row.milliseconds == pytest.approx(row.architecture + row.weights)
    assert {(row.megabytes, row.memory) for row in others} == {(45.0, 1.5)}
    assert asked == [None, *regularizers.MEMBERS.values()]


def test_all_that_are_published_beyond_a_plain_term_are_in_the_table():
    found = {name_of(member) for member in regularizers.MEMBERS.values()}
    assert set(REGULARIZERS) - found <= {"entropy", "dirichlet-kl"}
    differences = [member.difference for member in regularizers.MEMBERS.values() if isinstance(member, LayerAlignment)]
    assert set(differences) == {"interleaved", "central", "exact"}


def test_the_regulariser_is_at_work_in_what_is_measured():
    passes = {}
    for name, member in (("none", None), *regularizers.MEMBERS.items()):
        search = methods.TimedSearch.of(TINY, regularizers._with(member))
        passes[name] = len(search.steps()["weights"]())
        assert any(isinstance(part, AuxiliarySkip) for part in search.setup.method.regularizers) == (
            search.setup.options.auxiliary_skip
        )
    assert passes == {
        "none": 1,
        "LayerAlignment interleaved": 2,
        "LayerAlignment central": 3,
        "LayerAlignment exact": 1,
        "LayerAlignment central, sign": 3,
        "LayerAlignment crossed kinks": 3,
        "RandomPerturbation": 1,
        "AdversarialPerturbation": 10,
        "BetaDecay": 1,
        "AuxiliarySkip": 1,
    }


def test_lines_stand_under_the_header(measured):
    report, lines, _ = measured
    assert lines[1] == regularizers.HEADER
    assert lines[2 : 2 + len(report.rows)] == [str(row) for row in report.rows]
    own = len(report.checkups)
    assert lines[-own:] == [str(checkup) for checkup in report.checkups]
    assert lines[-own - 2 - len(report.bars) : -own - 2] == [str(bar) for bar in report.bars]
    assert max(map(len, lines)) <= 120
    for row in (*report.rows, replace(report.rows[0], megabytes=None, memory=None)):
        places = [[i for i, c in enumerate(line) if c == "|"] for line in (str(row), regularizers.HEADER)]
        assert len(str(row)) == len(regularizers.HEADER)
        assert places[0] == places[1]


def test_every_run_measures_itself_for_the_methods_of_both_kinds(measured):
    checkups = measured[0].checkups
    assert [checkup.method for checkup in checkups] == ["darts", "gaea-simultaneous"]
    for checkup in checkups:
        assert min(checkup.iteration, checkup.layers, checkup.eigenvalue) > 0
        expected = (checkup.layers + checkup.eigenvalue / checkup.apart) / checkup.iteration
        assert checkup.share == pytest.approx(expected)
        assert ("MISSED" in str(checkup)) == (checkup.share > 0.03)


def test_bars_are_those_of_alignment(measured):
    assert [bar.row.regularizer for bar in measured[0].bars] == list(regularizers.BARS)
    assert {name: limits.cost for name, limits in regularizers.BARS.items()} == {
        "LayerAlignment interleaved": 1.6,
        "LayerAlignment central": 2.1,
        "LayerAlignment exact": 2.2,
    }


@pytest.mark.parametrize(
    ("changes", "met"),
    [({}, True), ({"cost": 2.3}, False), ({"memory": 2.1}, False), ({"memory": None, "megabytes": None}, True)],
)
def test_a_bar_holds_time_and_memory(changes, met):
    (bar,) = regularizers.bars([replace(ROW, **changes), replace(ROW, regularizer="BetaDecay")])
    assert bar.met == met
    assert (": met, " if met else ": MISSED, ") in str(bar)
    assert len(str(bar)) <= 120
    assert bar.to_dict()["met"] == met


def test_peak_memory_of_weight_steps_is_measured_in_this_process():
    assert regularizers.peak(TINY, None) >= 0
    assert regularizers.peak(TINY, LayerAlignment(difference="exact", schedule="constant")) >= 0


def test_regularisers_are_measured_on_spaces_chosen_by_name():
    assert [case.space for case in regularizers.cases()] == ["nasbench201", "darts"]
    assert [case.space for case in regularizers.cases("darts")] == ["darts"]
    with pytest.raises(UserError, match="Choose from: nasbench201, darts"):
        regularizers.cases("s1")


def test_two_kinds_of_cells_are_aligned_too():
    member = regularizers.MEMBERS["LayerAlignment interleaved"]
    search = methods.TimedSearch.of(Case("darts", 2, 4, 8, 2), regularizers._with(member))
    assert len(search.steps()["weights"]()) == 2


def test_the_command_prints_the_table_or_json(archgrad, monkeypatch):
    def pretended(case, repeats, memory):
        assert (case, repeats, memory) == (TINY, 1, False)
        plain = replace(ROW, regularizer="none", cost=1.0, megabytes=None, memory=None)
        return [plain, replace(plain, regularizer="LayerAlignment central", cost=2.0)]

    monkeypatch.setattr(regularizers, "_CASES", (TINY,))
    monkeypatch.setattr(regularizers, "measure", pretended)
    arguments = ("bench", "--regularizers", "--space", "nasbench201", "--repeats", 1, "--no-memory")
    code, out, _ = archgrad(*arguments)
    assert code == 0
    assert out.splitlines()[1] == regularizers.HEADER
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["none", "LayerAlignment"]
    assert any("met, 2.00x, memory not measured" in line for line in out.splitlines())
    assert "eigenvalue/" in out.splitlines()[-1]
    code, out, err = archgrad(*arguments, "--json")
    assert (code, regularizers.HEADER in err) == (0, True)
    content = json.loads(out)
    assert [row["regularizer"] for row in content["rows"]] == ["none", "LayerAlignment central"]
    assert content["bars"][0]["limits"] == {"cost": 2.1, "memory": 1.1}
    assert content["cases"][0]["batch"] == 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "--regularizers"], "--methods and --regularizers measure different things; choose one."),
        (["--regularizers", "--hypergradients"], "--hypergradients and --regularizers measure different things"),
        (["--regularizers", "--space", "dart"], "did you mean 'darts'? Choose from: nasbench201, darts"),
    ],
)
def test_the_command_refuses_what_regularisers_are_not_measured_with(archgrad, arguments, sentence):
    code, out, err = archgrad("bench", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
