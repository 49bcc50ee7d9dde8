"""`archgrad plot`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

TINY = ["--channels", 2, "--cells", 1, "--limit", 60, "--batch-size", 20, "--threads", 1]


@pytest.fixture
def runs(archgrad, kept) -> list[Path]:
    made = []
    for method, seed in (("gaea", 0), ("gaea", 1), ("gdas", 0)):
        out = kept / f"{method}-{seed}"
        if not out.exists():
            archgrad.run("search", "--method", method, "--seed", seed, "--epochs", 2, *TINY, "--out", out)
        made.append(Path(shutil.copytree(out, out.name)))
    unfinished = made[1] / "metrics.jsonl"
    unfinished.write_text(unfinished.read_text().splitlines()[0] + "\n")
    return made


def test_what_differs_in_a_setting_is_another_line(archgrad, runs):
    for out, *options in (("other", "--set", "arch_optimizer.lr=0.2"), ("bilevel", "--set", "schedule.level=bilevel")):
        archgrad.run("search", "--method", "gaea", *options, "--epochs", 2, *TINY, "--out", out)
    out = archgrad.run("plot", runs[0], "other", "bilevel", "--measure", "entropy")
    assert [line.partition(":")[0] for line in out.splitlines()[:-1]] == [
        "gaea (alpha_budget=always, arch_optimizer.lr=0.1, schedule.level=single)",
        "gaea (alpha_budget=published, arch_optimizer.lr=0.2, schedule.level=single)",  # a rate that is not scaled
        "gaea (alpha_budget=always, arch_optimizer.lr=0.1, schedule.level=bilevel)",
    ]


def test_one_run_is_no_two_seeds(archgrad, runs):
    assert "are the same search with the same seed; leave one of them out" in archgrad.error(
        "plot", runs[0], runs[1], runs[0], "--measure", "entropy"
    )


def test_it_draws_a_line_for_each_method_over_the_epochs_its_seeds_share(archgrad, runs):
    out = archgrad.run("plot", *runs, "--measure", "entropy", "-o", "curves.svg")
    picture = Path("curves.svg").read_bytes()
    assert b"<svg" in picture
    assert out.splitlines()[0].startswith("gaea: ")
    assert "(95 % interval of the mean; standard deviation " in out.splitlines()[0]
    assert ", n = 2) after epoch 1" in out.splitlines()[0]
    assert "after epoch 2" in out.splitlines()[1]
    out = archgrad.run("plot", *runs, "--measure", "entropy", "-o", "curves.svg", "--json")
    curves = json.loads(out)
    assert [point["epoch"] for point in curves["gdas"]] == [1, 2]
    values = [json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["entropy"] for run in runs[:2]]
    assert curves["gaea"][0] == {
        "epoch": 1,
        "mean": pytest.approx(sum(values) / 2),
        "deviation": pytest.approx(abs(values[0] - values[1]) / 2**0.5),
        "least": min(values),
        "greatest": max(values),
        "runs": 2,
        "interval": pytest.approx(12.7062047 * abs(values[0] - values[1]) / 2),
    }
    assert Path("curves.svg").read_bytes() == picture  # the same curves are the same file


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_other_formats(archgrad, runs, suffix, monkeypatch):
    archgrad.run("plot", runs[0], "--measure", "train_loss", "-o", f"curves.{suffix}")
    picture = Path(f"curves.{suffix}").read_bytes()
    assert len(picture) > 1000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # as if it were drawn long ago
    archgrad.run("plot", runs[0], "--measure", "train_loss", "-o", f"curves.{suffix}")
    assert Path(f"curves.{suffix}").read_bytes() == picture


def test_a_measure_of_one_epoch_is_seen(archgrad, runs):
    for measure in ("mixture_accuracy", "discrete_accuracy"):
        archgrad.run("plot", runs[0], "--measure", measure, "-o", f"{measure}.svg")
    assert Path("mixture_accuracy.svg").read_text().count("<use") > 0


def test_the_loss_of_the_architecture_on_one_level_and_on_two_is_one_plot(archgrad, runs):
    out = archgrad.run("plot", runs[0], runs[2], "--measure", "arch_loss")
    assert [line.partition(":")[0] for line in out.splitlines()[:-1]] == ["gaea", "gdas"]


def test_mistakes_are_sentences(archgrad, runs, tmp_path):
    for options, sentence in (
        ([runs[0], "--measure", "entropi"], "did you mean 'entropy'?"),
        ([runs[0], "--measure", "entropy", "-o", "curves.jpg"], "unknown picture format '.jpg'"),
        ([tmp_path], "is not a run directory"),
        ([runs[0], "--measure", "entropy", "-o", "gaea-0/config.toml/curves.svg"], "cannot be written"),
    ):
        assert sentence in archgrad.error("plot", *options)
    (runs[0] / "metrics.jsonl").write_text("")
    assert "no epoch of gaea-0 is finished" in archgrad.error("plot", runs[0], "--measure", "entropy")


def test_without_matplotlib_it_says_what_to_install(archgrad, runs, monkeypatch):
    monkeypatch.setattr("archgrad.report.figure.find_spec", lambda name: None)
    assert "pip install 'archgrad[plot]'" in archgrad.error("plot", runs[0], "--measure", "entropy")


def renamed(run: Path, **measures: float) -> Path:
    """Give every epoch of a run these numbers."""
    path = run / "metrics.jsonl"
    path.write_text("".join(json.dumps(json.loads(line) | measures) + "\n" for line in path.read_text().splitlines()))
    return run


def test_without_a_measure_it_is_the_oracle_that_all_runs_have(archgrad, runs):
    test, valid = "oracle_cifar10_test_200ep", "oracle_cifar10_valid_200ep"
    first, _, other = runs
    assert archgrad.run("plot", first, other).startswith("gaea: heldout_accuracy ")
    renamed(first, **{test: 91.0}), renamed(other, **{test: 92.0, valid: 89.0})
    assert archgrad.run("plot", first, other).splitlines()[0].startswith(f"gaea: {test} 91 after epoch")


def test_accuracies_of_two_kinds_are_not_drawn_together(archgrad, runs):
    first, _, other = runs
    renamed(first, oracle_cifar10_test_200ep=91.0), renamed(other, oracle_cifar10_valid_200ep=89.0)
    err = archgrad.error("plot", first, other)
    said = " ".join(err.split())
    assert "has oracle_cifar10_test_200ep, and" in said
    assert "has oracle_cifar10_valid_200ep: these cannot be compared; name a --measure that all runs have" in said
    err = archgrad.error("plot", first, other, "--measure", "oracle_cifar10_test_200ep")
