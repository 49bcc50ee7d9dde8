"""The command with another task: its words, ``inspect``, ``plot``, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

DATA = """
import torch
from archgrad.data import DataSource, ImageData

class Numbers(DataSource):
    def read(self, path, options):
        images = torch.randint(0, 255, (80, 1, 6, 6), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
        return options.apply(ImageData("numbers", images, images.float().mean((1, 2, 3)) / 100, ()))
"""
TINY = ("--channels", 2, "--cells", 1, "--batch-size", 10, "--epochs", 2, "--method", "darts", "--threads", 1)


def test_a_regression_is_searched_inspected_and_plotted(
    archgrad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_numbers.py").write_text(DATA, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = ("--data", "own_numbers:Numbers", "--task", "regression", "--set", "task.delta=0.5")
    out = archgrad.run("search", *TINY, *options, "--out", "run")
    assert "80 images for regression" in out
    assert "held-out rmse" in out
    assert "accuracy" not in out.partition("next")[0]
    assert "with this cell and the same weights" in out
    record = json.loads(Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (record["metric"], record["metric_direction"]) == ("rmse", "lower")
    with monkeypatch.context() as patched:
        patched.setattr("archgrad.cli.inspect.can_draw", lambda: False)  # drawing all panels takes long
        code, out, err = archgrad("inspect", "run", "--json")
    assert code == 0, err
    assert "heldout_rmse" in json.loads(out)["curves"]
    out = archgrad.run("inspect", "run", "--discretization", "--json")
    found = json.loads(out)
    assert found["drop"] == pytest.approx(found["discrete_rmse"] - found["mixture_rmse"])
    assert "rmse" in archgrad.run("inspect", "run", "--discretization")
    assert "heldout_rmse" in archgrad.run("plot", "run", "-o", "curves.svg")
    archgrad.run("resume", "run")
    shutil.copytree("run", "other")
    Path("other/config.toml").write_text(Path("run/config.toml").read_text().replace("seed = 0", "seed = 1"))
    Path("other/metrics.jsonl").write_text(Path("run/metrics.jsonl").read_text().replace('"metric"', '"word"'))
    assert "run has heldout_rmse, and other has train_accuracy: these cannot be compared" in archgrad.error(
        "plot", "run", "other"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--task", "regression"), "the targets of 'digits' are classes"),
        (("--task", "json:dumps"), "json:dumps is no task: it must be a subclass of archgrad.tasks:BaseTask"),
        (("--set", "task.class_weights=1,2"), "task.class_weights has 2 numbers"),
        (("--set", "task.margin=1"), "unknown knob of task (Classification): 'margin'"),
    ],
)
def test_a_wrong_task_is_one_sentence(archgrad: Any, options: tuple[str, ...], told: str) -> None:
    assert told in archgrad.error("search", *TINY, "--limit", 60, *options, "--out", "run")
    assert not Path("run").exists()


def test_label_smoothing_is_kept_and_changes_the_loss(archgrad: Any) -> None:
    for name, more in (("plain", ()), ("smooth", ("--set", "task.label_smoothing=0.2"))):
        archgrad.run("search", *TINY, "--limit", 60, *more, "--out", name)
    assert "label_smoothing = 0.2" in Path("smooth/config.toml").read_text(encoding="utf-8")
    records = [json.loads(Path(f"{name}/metrics.jsonl").read_text().splitlines()[0]) for name in ("plain", "smooth")]
    assert records[0]["train_loss"] != records[1]["train_loss"]
    assert records[0].keys() == records[1].keys()
    summary = json.loads(Path("smooth/summary.json").read_text(encoding="utf-8"))
    assert summary["task"]["label_smoothing"] == 0.2
    assert "task" not in json.loads(Path("plain/summary.json").read_text(encoding="utf-8"))
