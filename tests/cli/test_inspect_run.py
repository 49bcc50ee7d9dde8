"""`archgrad inspect`."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from archgrad.cli.inspect_run import _estimators
from archgrad.hypergradients import FirstOrder, Unrolled

TINY = ["--channels", 2, "--cells", 1, "--limit", 120, "--batch-size", 30, "--threads", 1, "--epochs", 1]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """Where the run stays that all tests have a copy of."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def run(archgrad, kept) -> Path:
    if not kept.exists():
        code, _, _ = archgrad("search", "--method", "idarts", "--set", "schedule.inner_steps=1", *TINY, "--out", kept)
        assert code == 0
    return Path(shutil.copytree(kept, "run"))


@pytest.fixture
def short(monkeypatch) -> None:
    """Look at little of the spectrum that the reference is damped by."""
    monkeypatch.setattr("archgrad.diagnostics.estimates._LANCZOS_STEPS", 3)


@pytest.fixture
def two(monkeypatch) -> None:
    """Compare the two cheapest estimates only."""
    monkeypatch.setattr(
        "archgrad.cli.inspect_run._estimators", lambda *given: {"first order": FirstOrder(), "unrolled": Unrolled()}
    )


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_says_how_far_a_run_has_come(archgrad, run):
    code, out, _ = archgrad("inspect", run)
    assert code == 0
    assert out.startswith("idarts on nasbench201, digits, seed 0: 1 of 1 epochs\n")
    assert "contraction" in out
    code, out, _ = archgrad("inspect", run, "--json")
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
    code, out, _ = archgrad("inspect", run, "--hypergradient", "--batches", 2, "--steps", 2, "--json")
    assert json.loads(out) == found


def test_what_is_damaged_is_answered_with_a_sentence(archgrad, run):
    (run / "metrics.jsonl").write_text('{"epoch": 1, "gen')
    code, _, err = archgrad("inspect", run)
    assert code == 2
    assert "metrics.jsonl is missing or damaged" in err
    (run / "metrics.jsonl").unlink()
    assert archgrad("inspect", run)[0] == 2


def test_options_of_the_comparison_are_not_ignored(archgrad, run):
    code, _, err = archgrad("inspect", run, "--batches", 2)
    assert code == 2
    assert "works only with --hypergradient" in err


def test_a_comparison_that_cannot_be_kept_is_still_shown(archgrad, run, short):
    (run / "hypergradient.json").mkdir()
    code, out, err = archgrad("inspect", run, "--hypergradient", "--batches", 1, "--steps", 1)
    assert code == 0
    for name in ("first order", "this run's", "unrolled", "T1-T2", "Neumann, 5 terms, auto", "amended"):
        assert name in out
    assert "cannot be written" in err


def test_what_is_no_run_is_refused(archgrad, tmp_path):
    code, _, err = archgrad("inspect", tmp_path)
    assert code == 2
    assert "is not a run directory" in err


@pytest.mark.parametrize("method", ["gaea", "gaea-pc-darts"])
def test_it_measures_what_discretization_costs(archgrad, method):
    options = ["--method", method, *TINY, "--channels", 4, "--set", "schedule.warmup_epochs=0", "--out", "run"]
    assert archgrad("search", *options)[0] == 0
    run = Path("run")
    before = contents(run)
    code, out, _ = archgrad("inspect", run, "--discretization")
    assert code == 0
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
    code, out, _ = archgrad("inspect", run, "--discretization", "--json")
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
    code, out, _ = archgrad("inspect", run, "--discretization")
    assert code == 0
    assert out.startswith("after epoch 0 and 3 steps, shared weights on 60 held-out images:")
    assert out.count("nor_conv_3x3") == 6


def test_an_interrupted_run_is_not_asked_for_what_is_derived_once(archgrad, monkeypatch):
    from archgrad.discretizers import Perturbation
    from archgrad.loop.state import SearchState

    options = ["--method", "darts-pt", *TINY, "--set", "discretizer.tune_epochs=0", "--out", "run"]
    assert archgrad("search", *options)[0] == 0
    restore = SearchState.restore

    def within(self, saved):
        restore(self, saved)
        self.epoch, self.step = 0, 1

    monkeypatch.setattr(SearchState, "restore", within)
    monkeypatch.setattr(Perturbation, "select", lambda *_: pytest.fail("the selection ran"))
    code, out, err = archgrad("inspect", "run", "--discretization")
    assert code == 0, err
    assert out.startswith("after epoch 0 and 1 steps")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--discretization", "--hypergradient"], "are different inspections; choose one"),
        (["--discretization", "--steps", 3], "--steps works only with --hypergradient"),
        (["--device", "cpu"], "--device works only with --hypergradient, --discretization or --layers"),
    ],
)
def test_options_that_would_be_ignored_are_refused(archgrad, run, options, sentence):
    code, _, err = archgrad("inspect", run, *options)
    assert code == 2
    assert sentence in err


def test_estimates_that_assume_sgd_are_compared_only_with_sgd() -> None:
    all_of_them, others = (_estimators(FirstOrder(), sgd) for sgd in (True, False))
    assert set(all_of_them) - set(others) == {"unrolled", *(f"Neumann, {terms} terms" for terms in (0, 1, 2, 5))}
