"""``archgrad fit``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import archgrad as ag
from archgrad.system.run_kind import write_kind
from archgrad.workflows.fit_folder import FIT
from tests.workflows.small_fit import PLAN, Killer, write_images

FULL = {"data": "digits", "budget": "30m"}
SMALL = ("fit", "--limit", 100, "--threads", 1)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is measured: the plan is the smallest."""
    monkeypatch.setattr("archgrad.workflows.fit.FitPlan", lambda: PLAN)
    monkeypatch.setattr("archgrad.workflows.fit_report.measure_latency", lambda *args: 1e-3)


def test_a_fit_says_what_it_found_and_exports_it(archgrad, planned, tmp_path):
    out = archgrad.run(*SMALL, "--model", "net.onnx")
    assert "80 images of 10 classes at 8×8 pixels" in out
    assert "lr = " not in out
    lines = dict(line.split(maxsplit=1) for line in out.splitlines()[-9:])
    assert "no better than always predicting the same" in lines["warning"]
    assert "% on 20 test images (95 % interval" in lines["accuracy"]
    assert lines["report"] == "runs/fit-seed0/report.html"
    assert lines["model"] == f"runs/fit-seed0/model, {tmp_path / 'net.onnx'}"
    assert ag.Model.load("runs/fit-seed0").classes == tuple("0123456789")
    archgrad.run("predict", "net.onnx", *_picture(tmp_path))
    request = json.loads(Path("runs/fit-seed0", FIT).read_text())["request"]
    assert request["target"] == str(tmp_path / "net.onnx")


def _picture(home: Path) -> list[Path]:
    return [write_images(home / "pictures", 1) / "dark" / "0.png"]


def test_a_killed_fit_is_resumed_from_elsewhere(archgrad, planned, tmp_path, monkeypatch):
    write_images(tmp_path / "pictures", 30)
    command = ("fit", "pictures", "--threads", 1, "--model", "model", "-o", "run")
    killer = Killer("round 1 of 2")
    monkeypatch.setattr("archgrad.cli.fit.SearchProgress", lambda *args, **more: killer)
    monkeypatch.setattr("archgrad.cli.fit.say", lambda text, console: killer.tell(text))
    for name in ("close", "count_down"):
        monkeypatch.setattr(Killer, name, lambda self, *args: None, raising=False)
    code, _, err = archgrad(*command)
    assert (code, err.rpartition("; ")[2]) == (130, "continue with `archgrad resume run`.\n")
    killer.part = "nothing"
    assert archgrad(*command)[0] == 2  # not empty
    monkeypatch.chdir("/")
    assert json.loads(archgrad.run("resume", tmp_path / "run", "--json"))["files"] == [str(tmp_path / "model")]
    assert ag.Model.load(tmp_path / "model").classes == ("bright", "dark")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "nonsense"), "budget is 'nonsense'; write a positive time"),
        (("--model", "model.xyz"), "(--model) is '"),
        (("--model", "missing/net.onnx"), "give a file in a folder that exists"),
        (("--model", "x" * 300), "no file can have this name"),
        (("--model", "full"), "it is not empty and no model, so give a new folder"),
        (("--model", "full/file"), "give a folder, or a file that ends with .onnx"),
        (("-o", "net.onnx"), "--model"),
        (("--compare", "0"), "--compare"),
        (("--set", "weights.lr=x"), "weights.lr"),
        (("digits", "--data", "digits"), "the data is given twice"),
        (("a b " * 2000,), "unknown data"),
        (("--data", "folder:nowhere"), "nowhere"),
        (("--out", "full"), "full is not empty; choose a new folder"),
    ],
    ids=str,
)
def test_mistakes_leave_nothing_behind(archgrad, planned, tmp_path, options, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    err = archgrad.error(*SMALL, *options)
    assert message in " ".join(err.split())
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "file"]
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_a_fit_is_a_run_for_other_commands(archgrad, planned):
    archgrad.run(*SMALL, "--out", "run")
    shown = {
        "inspect": "training accuracy",
        "plot": "train: train_accuracy",
        "cost": ", 1 thread\n",
        "draw": "(output)",
    }
    for command, text in shown.items():
        assert text in archgrad.run(command, "run")
    archgrad.run("train", "run", "--epochs", 1, "--channels", 2, "--cells", 1, "--threads", 1)


def test_class_weights_are_an_option(archgrad, planned, tmp_path):
    pictures = write_images(tmp_path / "pictures", 50)
    for number in range(44):
        (pictures / "dark" / f"{number}.png").unlink()
    code, out, err = archgrad("fit", "pictures", "--threads", 1, "--class-weights", "balanced", "-o", "run")
    assert code == 0, err
    assert "are unequal" not in err
    assert "%, if all classes count alike" in out
    assert "if all classes count alike" in Path("run", "report.html").read_text()
    for home in ("run", "run/final"):
        assert 'class_weights = "balanced"' in Path(home, "config.toml").read_text()


def test_a_regression_from_the_command_line(archgrad, planned, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 8, 8), dtype=np.uint8)
    np.savez("light.npz", x_train=pixels, y_train=pixels.mean((1, 2)) / 25 - 5)
    command = ("fit", "--data", "npz:light.npz", "--task", "regression", "--set", "task.delta=0.5", "--threads", 1)
    out = archgrad.run(*command, "-o", "run")
    assert any(line.startswith("rmse ") and "on 14 test images (95 % interval" in line for line in out.splitlines())
    assert "accuracy" not in out
    assert "reaches a test rmse of" in Path("run", "report.html").read_text()
    for words, text in {("inspect", "run"): "rmse", ("plot", "run"): "train_rmse", ("resume", "run"): "rmse"}.items():
        assert text in archgrad.run(*words)
    picture = write_images(tmp_path / "pictures", 1) / "dark" / "0.png"
    assert "numbers" in archgrad.run("predict", "run/model", picture, "--json")
    err = archgrad.error("fit", "--data", "npz:light.npz", "--task", "multilabel", "-o", "other")
    assert "the task multilabel needs [N, labels]" in " ".join(err.split())
    assert not Path("other").exists()


@pytest.mark.parametrize(
    "request_", [None, 7, {"plan": {}}, {"data": []}, {**FULL, "seed": "x"}, {**FULL, "out": "x"}], ids=str
)
def test_a_request_from_a_file_is_checked(archgrad, tmp_path, request_):
    content = {
        "plan": asdict(PLAN), "images": ["a", "b"], "decisions": {}, "spent": 1.0,
        "request": request_,
    }  # fmt: skip
    (tmp_path / "run").mkdir()
    write_kind(tmp_path / "run", "fit")
    (tmp_path / "run" / FIT).write_text(json.dumps(content))
    archgrad.error("resume", "run")
