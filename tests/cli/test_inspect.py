"""`archgrad inspect`: the diagnosis of a run and measures at its last checkpoint; `archgrad search --on-collapse`."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from archgrad.cli.inspect import _estimators
from archgrad.hypergradients import FirstOrder, Unrolled
from archgrad.training.weight_training import WeightTraining

TINY = ["--channels", 2, "--limit", 60, "--batch-size", 20, "--threads", 1]
ONE_EPOCH = ["--channels", 2, "--cells", 1, "--limit", 120, "--batch-size", 30, "--threads", 1, "--epochs", 1]
SKIPS = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|nor_conv_3x3~2|"
CONVS = SKIPS.replace("skip_connect", "nor_conv_3x3")


def made(
    name: str, records: list[dict[str, Any]], method: str = "darts", epochs: int | None = None, more: str = ""
) -> Path:
    """A run directory with these records."""
    folder = Path(name)
    folder.mkdir()
    (folder / "config.toml").write_text(f'method = "{method}"\nepochs = {epochs or len(records)}\n{more}')
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def history(shares: list[float], **last: float) -> list[dict[str, Any]]:
    records = [
        {
            "epoch": place + 1,
            "genotype": SKIPS if share > 0.5 else CONVS,
            "skip_share": share,
            "alignment": 0.031,
            "entropy": 1.1 - place / 1000,
            "entropy_max": 1.386,
            "movement": 0.1 * (place + 1),
            "alpha_eigenvalue": 0.1,
        }
        for place, share in enumerate(shares)
    ]
    records[-1] |= last
    return records


COLLAPSING = [0.0, 1 / 6, 2 / 6, 3 / 6, 4 / 6]


def test_it_says_in_plain_words_what_is_wrong(archgrad):
    run = made("run", history(COLLAPSING), epochs=12)
    code, out, err = archgrad("inspect", run)
    assert code == 0
    assert err == ""
    assert out.startswith(
        "diagnosis: collapsing since epoch 5\n"
        "  skip connections are 50 % of the architecture, up from 0 % in epoch 1\n"
        "  layer alignment is 0.03: the cells want different architectures\n"
    )
    assert "  go back to an earlier epoch, or search again: λ-DARTS" in out
    assert "\ndecided 21 %\ndarts on nasbench201, digits, seed 0: 5 of 12 epochs\n" in out
    assert f"\n{SKIPS}\n" in out
    assert "skip_share" not in out
    out = archgrad.run("inspect", run, "--all")
    table = [line.split() for line in out.splitlines() if line.startswith(("          ", "skip_share", "movement"))]
    assert table == [
        ["epoch", "1", "epoch", "3", "epoch", "5"],
        ["skip_share", "0", "0.3333", "0.6667"],
        ["movement", "0.1", "0.3", "0.5"],
    ]
    assert out.splitlines()[-1] == f"curves: {run / 'diagnosis.svg'}"
    picture = (run / "diagnosis.svg").read_bytes()
    assert b"<svg" in picture
    archgrad("inspect", run)
    assert (run / "diagnosis.svg").read_bytes() == picture


def test_it_says_it_as_json(archgrad):
    run = made("run", history([0.0] * 4), epochs=8)
    found = json.loads(archgrad.run("inspect", run, "--json", "--out", "curves.png"))
    assert found["diagnosis"]["verdict"] == "healthy"
    assert found["diagnosis"]["since"] is None
    assert found["diagnosis"]["evidence"]["alignment"] == pytest.approx(0.031)
    assert found["curves"]["skip_share"] == [[1, 0.0], [2, 0.0], [3, 0.0], [4, 0.0]]
    assert found["picture"] == "curves.png"
    assert Path("curves.png").read_bytes()[1:4] == b"PNG"
    assert not (run / "diagnosis.svg").exists()


def test_without_matplotlib_it_says_so_and_is_no_error(archgrad, monkeypatch):
    monkeypatch.setattr("archgrad.report.figure.find_spec", lambda name: None)
    run = made("run", history([0.0] * 4))
    code, out, err = archgrad("inspect", run)
    assert code == 0
    assert err == ""
    assert out.splitlines()[-2] == "to draw curves, install matplotlib: `pip install 'archgrad[plot]'`"
    assert not (run / "diagnosis.svg").exists()


def test_a_picture_that_cannot_be_kept_in_the_run_is_no_error(archgrad):
    run = made("run", history([0.0] * 4))
    (run / "diagnosis.svg").mkdir()
    code, out, err = archgrad("inspect", run)
    assert code == 0
    assert "diagnosis: healthy" in out
    assert "cannot be written" in err


def test_records_without_measures_and_no_records(archgrad):
    bare = made("bare", [{"epoch": 1, "genotype": CONVS}, {"epoch": 2, "genotype": CONVS}])
    assert "diagnosis: too early" in archgrad.run("inspect", bare)
    assert (
        archgrad.run("inspect", made("new", [], epochs=3))
        == "darts on nasbench201, digits, seed 0: no epoch of 3 is finished\n"
    )


def test_of_a_search_in_stages_the_last_is_judged(archgrad):
    first = [dict(record, stage=1) for record in history([1.0] * 4)]
    second = [dict(record, stage=2, epoch=record["epoch"] + 4) for record in history([0.0] * 3)]
    run = made("run", first + second, "p-darts", epochs=4, more="[set.progressive]\nkeep = [8, 5, 3]\n")
    out = archgrad.run("inspect", run)
    assert "seed 0: 7 of 12 epochs\n" in out
    assert "diagnosis: healthy" in out
    assert "epoch 5      epoch 6      epoch 7" in archgrad.run("inspect", run, "--all")


def test_of_a_stopped_run_the_architecture_that_it_returned_is_shown(archgrad):
    records = history([*COLLAPSING, 5 / 6, 5 / 6])
    records[-1]["stopped_to"] = 3
    run = made("run", records, epochs=12)
    out = archgrad.run("inspect", run)
    assert "stopped at epoch 7, architecture of epoch 3:\n" in out
    assert f"\n{CONVS}\n" in out
    assert SKIPS not in out
    found = json.loads(archgrad.run("inspect", run, "--json"))
    assert (found["stopped_to"], found["genotype"]) == (3, CONVS)


@pytest.mark.parametrize(
    ("method", "there"), [("darts", (True, True)), ("lambda-darts", (False, True)), ("gaea", (True, False))]
)
def test_nobody_is_told_to_do_what_the_run_does(archgrad, method, there):
    run = made("run", history(COLLAPSING), method, epochs=12)
    out = archgrad.run("inspect", run)
    assert ("+layer-alignment" in out, "--method gaea" in out) == there


def test_after_a_switch_nobody_is_told_to_switch(archgrad):
    records = history(COLLAPSING)
    records[1]["switched_from"] = 4
    out = archgrad.run("inspect", made("run", records, epochs=12))
    assert ("+layer-alignment" in out, "--method gaea" in out) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "--discretization", "--layers"], "--discretization and --layers"),
        (["run", "--layers", "--out", "x.svg"], "--out is about the curves of the run, and --layers shows none"),
        (["run", "--batches", 2], "--batches works only with --hypergradient or --layers"),
        (["run", "--layers", "--steps", 2], "--steps works only with --hypergradient"),
        (["run", "--discretization", "--batches", 3], "--batches works only with --hypergradient or --layers"),
        (["run", "--device", "cpu"], "--device works only with --hypergradient or --discretization or --layers"),
        (["run", "--out", "run/config.toml/x.svg"], "cannot be written"),
        (["nowhere"], "is not a run directory"),
    ],
)
def test_mistakes_exit_with_2_and_a_sentence(archgrad, arguments, sentence):
    made("run", history([0.0] * 7))
    code, out, err = archgrad("inspect", *arguments)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""


def test_it_compares_the_layers_and_keeps_it_in_the_run(archgrad):
    archgrad.run("search", "--method", "darts", *TINY, "--cells", 2, "--epochs", 1, "--out", "run")
    out = archgrad.run("inspect", "run", "--layers", "--batches", 2)
    assert out.splitlines()[0] == "after epoch 1, mean of 2 batches; cosines between the cells of a stage"
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [["2x8x8", "2"], ["4x4x4", "2"], ["8x2x2", "2"]]
    found = json.loads(Path("run/layers.json").read_text())
    out = archgrad.run("inspect", "run", "--layers", "--batches", 2, "--json")
    assert json.loads(out) == found
    assert found["stages"][0]["cells"] == 2


def test_a_space_without_two_cells_alike_has_no_layers_to_compare(archgrad):
    archgrad.run("search", "--method", "darts", *TINY, "--cells", 1, "--epochs", 1, "--out", "run")
    assert "no two of the 3 cells have the same shape" in archgrad.error("inspect", "run", "--layers")


@pytest.fixture
def sick(monkeypatch) -> None:
    from archgrad.diagnostics import Diagnosis

    def judge(records, epochs, cures=()):
        bad = len(records) > 1
        verdict = "collapsing" if bad else "healthy"
        return Diagnosis(verdict, 2 if bad else None, ("skips everywhere",), "act", usable=not bad)

    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", judge)
    monkeypatch.setattr("archgrad.callbacks.doctor.last_usable_epoch", lambda records, epochs: 1)


def test_a_search_warns_on_standard_error(archgrad, sick):
    code, _, err = archgrad("search", "--method", "darts", *TINY, "--cells", 1, "--epochs", 3, "--out", "run")
    assert code == 0
    assert err == "warning: epoch 2: skips everywhere. Act.\n"
    assert 'on_collapse = "warn"' in Path("run/config.toml").read_text()
    assert [json.loads(line)["diagnosis"] for line in Path("run/metrics.jsonl").read_text().splitlines()] == [
        "healthy",
        "collapsing",
        "collapsing",
    ]


def test_a_search_stops_and_says_why(archgrad, sick):
    options = ["--method", "darts", *TINY, "--cells", 1, "--epochs", 4, "--out", "run", "--on-collapse", "stop"]
    out = archgrad.run("search", *options)
    assert "the search was collapsing after epoch 2; the architecture is that of epoch 1." in out
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["last_epoch"]["epoch"] == 2
    assert summary["on_collapse"] == "stop"
    before = Path("run/metrics.jsonl").read_text()
    out = archgrad.run("inspect", "run", "--discretization")
    assert out.splitlines()[0].startswith("after epoch 2, ")
    assert out.splitlines()[1].startswith("  with the mixture of epoch 2        ")
    assert out.splitlines()[2].startswith("  with one architecture of epoch 1   ")
    found = json.loads(Path("run/discretization.json").read_text())
    assert found["genotype"] == summary["genotype"]
    for name in ("mixture_accuracy", "discrete_accuracy"):
        assert found[name] == pytest.approx(summary["last_epoch"][name])
    out = archgrad.run("inspect", "run")
    assert f"\n{summary['genotype']}\n" in out.partition("stopped at epoch 2, architecture of epoch 1:\n")[2]
    assert json.loads(archgrad.run("resume", "run", "--json"))["genotype"] == summary["genotype"]
    assert Path("run/metrics.jsonl").read_text() == before


def test_a_search_switches_and_resumes(archgrad, sick):
    options = ["--method", "darts", *TINY, "--cells", 1, "--epochs", 3, "--out", "run", "--on-collapse", "switch"]
    code, _, err = archgrad("search", *options)
    assert code == 0, err
    assert "warning: going back to epoch 1, and continuing from there with LayerAlignment" in err
    assert json.loads(Path("run/summary.json").read_text())["switched"] == {"from": 2, "to": 1}
    archgrad.run("resume", "run")
    archgrad.run("inspect", "run", "--discretization")


@pytest.fixture
def run(archgrad, kept) -> Path:
    if not (kept / "run").exists():
        given = ["--method", "idarts", "--set", "schedule.inner_steps=1", *ONE_EPOCH]
        archgrad.run("search", *given, "--out", kept / "run")
    return Path(shutil.copytree(kept / "run", "run"))


@pytest.fixture
def short(monkeypatch) -> None:
    """Look at little of the spectrum that the reference is damped by."""
    monkeypatch.setattr("archgrad.diagnostics.estimates._LANCZOS_STEPS", 3)


@pytest.fixture
def two(monkeypatch) -> None:
    """Compare the two cheapest estimates only."""
    monkeypatch.setattr(
        "archgrad.cli.inspect._estimators", lambda *given: {"first order": FirstOrder(), "unrolled": Unrolled()}
    )


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_says_how_far_a_run_has_come(archgrad, run):
    assert "idarts on nasbench201, digits, seed 0: 1 of 1 epochs\n" in archgrad.run("inspect", run)
    assert "contraction" in archgrad.run("inspect", run, "--all")
    out = archgrad.run("inspect", run, "--json")
    assert json.loads(out)["last_epoch"]["epoch"] == 1


def test_it_compares_gradients_and_leaves_the_run_as_it_was(archgrad, run, short, two):
    before = contents(run)
    code, out, err = archgrad("inspect", run, "--hypergradient", "--batches", 2, "--steps", 2)
    assert code == 0
    assert "batch 2 of 2" in err
    assert "reference: 2 steps of conjugate gradient" in out
    assert "first order" in out
    after = contents(run)
    assert after.pop("hypergradient.json")
    assert after == before
    found = json.loads((run / "hypergradient.json").read_text())
    assert found["estimates"]["first order"]["second_share"] == 0
    assert found["lambda_min"] < found["lambda_max"]
    out = archgrad.run("inspect", run, "--hypergradient", "--batches", 2, "--steps", 2, "--json")
    assert json.loads(out) == found


def test_a_comparison_that_cannot_be_kept_is_still_shown(archgrad, run, short):
    (run / "hypergradient.json").mkdir()
    code, out, err = archgrad("inspect", run, "--hypergradient", "--batches", 1, "--steps", 1)
    assert code == 0
    for name in ("first order", "this run's", "unrolled", "T1-T2", "Neumann, 5 terms, auto", "amended"):
        assert name in out
    assert "cannot be written" in err


@pytest.mark.parametrize("method", ["gaea", "gaea-pc-darts"])
def test_it_measures_what_discretization_costs(archgrad, method):
    options = ["--method", method, *ONE_EPOCH, "--channels", 4, "--set", "schedule.warmup_epochs=0", "--out", "run"]
    archgrad.run("search", *options)
    run = Path("run")
    before = contents(run)
    out = archgrad.run("inspect", run, "--discretization")
    held = "held-out images"
    assert f"on {12 if method == 'gaea' else 60} {held}:" in out
    after = contents(run)
    found = json.loads((run / "discretization.json").read_text())
    assert after.pop("discretization.json")
    assert after == before
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["mixture_accuracy"] == pytest.approx(last["mixture_accuracy"])
    assert found["discrete_accuracy"] == pytest.approx(last["discrete_accuracy"])
    assert found["drop"] == pytest.approx(found["mixture_accuracy"] - found["discrete_accuracy"])
    out = archgrad.run("inspect", run, "--discretization", "--json")
    assert json.loads(out) == found


def test_a_run_stopped_within_an_epoch_is_measured_as_it_stands(archgrad, run, monkeypatch):
    from archgrad.loop.state import SearchState

    restore = SearchState.restore

    def within(self, saved):
        restore(self, saved)
        self.epoch, self.step = 0, 3
        self.alpha["cell"] = 0 * self.alpha["cell"]
        self.alpha["cell"][:, 3] = 1.0  # now nor_conv_3x3 everywhere, whatever the last epoch ended with

    monkeypatch.setattr(SearchState, "restore", within)
    out = archgrad.run("inspect", run, "--discretization")
    assert out.startswith("after epoch 0 and 3 steps, shared weights on 60 held-out images:")
    assert out.count("nor_conv_3x3") == 6


def test_an_interrupted_run_is_not_asked_for_what_is_derived_once(archgrad, monkeypatch):
    from archgrad.discretizers import Perturbation
    from archgrad.loop.state import SearchState

    options = ["--method", "darts-pt", *ONE_EPOCH, "--set", "discretizer.tune_epochs=0", "--out", "run"]
    archgrad.run("search", *options)
    restore = SearchState.restore

    def within(self, saved):
        restore(self, saved)
        self.epoch, self.step = 0, 1

    monkeypatch.setattr(SearchState, "restore", within)
    monkeypatch.setattr(Perturbation, "select", lambda *_: pytest.fail("the selection ran"))
    assert archgrad.run("inspect", "run", "--discretization").startswith("after epoch 0 and 1 steps")


def test_estimates_are_compared_only_where_they_know_the_steps_of_the_weights() -> None:
    sgd, adam, other = (
        set(_estimators(FirstOrder(), WeightTraining(optimizer=name))) for name in ("sgd", "adam", "rmsprop")
    )
    assert sgd - adam == {f"Neumann, {terms} terms" for terms in (0, 1, 2, 5)}
    assert adam - other == {"unrolled"}


def test_an_estimate_with_a_state_is_compared_from_where_the_run_has_come(archgrad, short):
    archgrad.run("search", "--method", "darts", "--hypergradient", "soba", *ONE_EPOCH, "--out", "run")
    out = archgrad.run("inspect", "run", "--hypergradient", "--batches", 1, "--steps", 1, "--json")
    assert json.loads(out)["estimates"]["this run's"]["second_share"] > 0
