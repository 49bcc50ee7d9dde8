"""`archgrad train`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archgrad as ag
from archgrad.report.page.trainings import page_of_training
from archgrad.workflows import PRESETS
from tests.workflows.small import CELL

SMALL = ["--channels", 2, "--cells", 1, "--epochs", 1, "--limit", 60, "--batch-size", 20, "--threads", 1]
PIXELS = np.random.default_rng(0).integers(0, 255, (60, 8, 8), np.uint8)


def test_images_to_predictions(archgrad: Any) -> None:
    np.savez("a.npz", x_train=PIXELS, y_train=np.arange(60) % 3, x_test=PIXELS[:9], y_test=np.arange(9) % 3)
    shown = " ".join(archgrad.run("train", CELL, *SMALL, "--data", "npz:a.npz", "--seeds", 2).split())
    for text in ("held-out accuracy ", "test accuracy ", "over 2 seeds", "M parameters", "next archgrad predict runs/"):
        assert text in shown
    (run,) = Path("runs").iterdir()
    content = json.loads((run / "result.json").read_text())
    assert content["test"]["std"] is not None
    out = archgrad.run("train", run, *SMALL, "--data", "npz:a.npz", "--json", "--out", "again")  # its cell
    assert json.loads(out)["genotype"] == CELL
    archgrad.run("cost", run)
    archgrad.run("inspect", run / "seed-0")


@pytest.mark.parametrize("network", [CELL, "mobilenet"])
def test_the_command_on_its_page_repeats_a_training(archgrad: Any, network: str) -> None:
    knobs = ["--set", "weights.lr=0.2", "--set", "augmentation.flip=true", "--set", "task.label_smoothing=0.1"]
    archgrad.run("train", network, *SMALL, *knobs, "--precision", "bf16", "--out", "first")
    page = page_of_training(Path("first"))
    command = shlex.split(page.commands[0])
    archgrad.run(*command[1:], "--out", "second")
    first, second = (Path(name, "config.toml").read_text() for name in ("first", "second"))
    assert first == second
    assert [one["text"] for one in page.cells] == [network]


def test_the_run_of_a_search_brings_space_data_and_task(archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez("a.npz", x=PIXELS, y=PIXELS.mean((1, 2)) / 255)
    search = ["--epochs", 1, "--batch-size", 20, "--channels", 2, "--cells", 1, "--threads", 1]
    told = ["--space", "tests.workflows.small:Own", "--data", "npz:a.npz", "--task", "regression", "--method", "darts"]
    archgrad.run("search", *search, *told, "--out", "run")
    content = json.loads(archgrad.run("train", "run", *SMALL, "--json", "--out", "trained"))
    assert (content["space"], content["metric"]) == ("own", ag.tasks.TASKS.create("regression").main_metric.name)
    assert "tests.workflows.small:Own" in Path("trained/config.toml").read_text()
    archgrad.run("resume", "trained")
    archgrad.error("predict", "trained", "a.npz")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ([CELL, "--space", "darts"], "darts"),
        ([CELL, "--preset", "slow"], "unknown preset 'slow'"),
        ([CELL, "--data", "npz:one.npz"], "class"),
        ([CELL, "--data", "npz:wide.npz"], "takes square ones; give image_size"),
        (["resnet", "--stem", "imagenet"], "have one kind of stem"),
        ([CELL, "--set", "supernet.partial=4"], "is for searches, not for one architecture"),
        ([CELL, "--set", "relaxation.tau=4"], "is for searches; give knobs of"),
        ([CELL, "--start-from", "missing"], "missing"),
        ([CELL, "--out", "full"], "is not empty"),
        (["darts-v9"], "unknown well-known cell 'darts-v9'"),
        ([CELL, "--test", "npz:missing.npz"], "missing.npz"),
    ],
)
def test_a_mistake_is_a_sentence_and_leaves_nothing_behind(archgrad: Any, line: list[str], wanted: str) -> None:
    np.savez("one.npz", x=PIXELS, y=np.zeros(60, np.int64))
    np.savez("wide.npz", x=PIXELS[:, :4], y=np.arange(60) % 2)
    Path("full").mkdir()
    Path("full/kept.txt").write_text("mine")
    before = sorted(Path().rglob("*"))
    code, out, err = archgrad("train", *line, *SMALL, "--json")
    assert code == 2
    assert wanted in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert [path for path in sorted(Path().rglob("*")) if path != Path("runs")] == before


def test_presets_are_listed_with_their_sources(archgrad: Any) -> None:
    out = archgrad.run("list", "presets", "all")
    assert "weights.batch_size 128 GAEA, C.1.2, as PC-DARTS" in [" ".join(line.split()) for line in out.splitlines()]
    assert [part.partition(":")[0] for part in out.split("\n\n")] == list(PRESETS)


def test_the_five_best_guesses_are_told(archgrad: Any) -> None:
    np.savez("a.npz", x_train=PIXELS, y_train=np.arange(60) % 6, x_test=PIXELS[:12], y_test=np.arange(12) % 6)
    line = (CELL, *SMALL, "--data", "npz:a.npz", "--preset", "imagenet-idarts", "--stem", "cifar", "--out", "run")
    out = archgrad.run("train", *line, "--seeds", 2)
    (told,) = [line for line in out.splitlines() if line.startswith("test top-5")]
    seeds = json.loads(Path("run/result.json").read_text())["seeds"]
    mean = sum(one["test"]["top5_accuracy"] for one in seeds) / 2
    assert all(one["test"]["top5_accuracy"] >= one["test"]["accuracy"] for one in seeds)
    assert told.split()[2:4] == [f"{mean:.2f}", "%"]
    assert "train_top5_accuracy" in Path("run/seed-0/metrics.jsonl").read_text()


def test_plot_and_inspect_name_trainings_shortly(archgrad, tmp_path):
    """No JSON, no class paths, and no diagnosis of a search that was none."""
    for name, cell in (("known", "darts-v2"), ("residual", "resnet")):
        line = ["train", cell, "--epochs", 1, "--channels", 2, "--cells", 3, "--limit", 100, "--out", name]
        archgrad.run(*line, *(["--tensorboard"] if name == "known" else []))
    assert (tmp_path / "known" / "tensorboard").is_dir()
    out = archgrad.run("plot", "known", "residual", "-o", "curves.svg")
    assert "architecture=darts-v2" in out
    assert "architecture=resnet" in out
    shown = archgrad.run("inspect", "residual")
    assert "train on resnet" in shown
    for text in (out, shown):
        assert not any(word in text for word in ("{", "SingleArchitecture", "diagnosis:"))
