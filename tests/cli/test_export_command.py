"""``archgrad export``."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from archgrad.models import Model
from archgrad.models.export import SUFFIXES
from archgrad.spaces import NASBench201
from tests.models.trained import CLASSES, model_of


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_of(NASBench201(channels=2, cells_per_stage=1)).save(tmp_path / "run" / "model")


def test_a_training_run_is_exported(archgrad, model):
    out = archgrad.run("export", model.parent, "-o", "net.pt2")
    assert out.splitlines()[:-1] == ["net.pt2"]
    assert out.splitlines()[-1].startswith("the outputs differ from PyTorch's by at most ")
    assert sorted(path.name for path in Path().iterdir()) == ["net.pt2", "run"]


def test_onnx_takes_any_batch_and_knows_its_images(archgrad, model):
    import onnxruntime

    code, out, _ = archgrad("export", model, "-o", "new/net.onnx", "--json")
    said = json.loads(out)
    assert (code, said["file"]) == (0, "new/net.onnx")
    assert said["max_error"] <= 1e-5
    session = onnxruntime.InferenceSession("new/net.onnx", providers=["CPUExecutionProvider"])
    x = torch.randn(5, 3, 16, 16)
    with torch.inference_mode():
        difference = torch.from_numpy(session.run(None, {"images": x.numpy()})[0]) - Model.load(model).network(x)
    assert difference.abs().max() <= 1e-5
    about = json.loads(session.get_modelmeta().custom_metadata_map["model.json"])
    assert about["classes"] == list(CLASSES)
    assert about["preprocessing"] == {
        "channels": 3, "image_size": 16, "resize": "crop", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4],
    }  # fmt: skip


def test_a_failed_export_leaves_the_old_file(archgrad, model, monkeypatch):
    monkeypatch.setitem(SUFFIXES, ".pt2", lambda model: (b"new", lambda x: torch.ones(len(x), 3)))
    Path("net.pt2").write_bytes(b"the old one")
    code, out, err = archgrad("export", model, "-o", "net.pt2")
    assert (code, out) == (2, "")
    assert "the exported model differs from the PyTorch one by" in err
    assert Path("net.pt2").read_bytes() == b"the old one"
    assert len(list(Path().iterdir())) == 2
    archgrad.run("export", model, "-o", "net.pt2", "--tolerance", "100")
    assert Path("net.pt2").read_bytes() == b"new"


def test_missing_libraries_are_named(archgrad, model, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("onnx") else find(name))
    sentence = "ONNX needs {}; install them with `pip install 'archgrad[export]'`."
    assert sentence.format("onnx, onnxscript, onnxruntime") in archgrad.error("export", model, "-o", "net.onnx")
    Path("image.png").touch()
    assert sentence.format("onnxruntime") in archgrad.error("predict", "net.onnx", "image.png")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "-o", "net.h5"], "unknown format of a model: '.h5'"),
        (["run", "-o", "folder.pt2"], "'folder.pt2' cannot be written (Is a directory)"),
        (["run", "-o", "net.pt2", "--tolerance", "nan"], "tolerance is nan; it must be a number of 0 or more"),
        (["none", "-o", "net.pt2"], "there is no model at 'none'; check the path"),
        (["file.onnx", "-o", "net.pt2"], "'file.onnx' is a file; give the folder of a model"),
        (["empty", "-o", "net.pt2"], "'empty' is no model: it has no model.json, only nothing"),
        (["search", "-o", "net.pt2"], "'search' is a run without a trained model; train one with `archgrad train`"),
        (["seeds", "-o", "net.pt2"], "'seeds' has several models, in seed-0, seed-1; give one of these folders"),
    ],
)
def test_mistakes_are_explained(archgrad, model, arguments, sentence):
    for name in ("seeds/seed-0/model", "seeds/seed-1/model"):
        shutil.copytree(model, name)
    for name in ("folder.pt2", "empty", "search"):
        Path(name).mkdir()
    for name in ("file.onnx", "search/genotype.json"):
        Path(name).touch()
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    code, out, err = archgrad("export", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before


def _damage(folder: Path) -> None:
    content = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(content[:-8] + b"\xff" * 8)


def _other_classes(folder: Path) -> None:
    """Write weights for five classes, and a digest that says they are right."""
    import hashlib

    weights = load_file(folder / "weights.safetensors")
    weights["classifier.weight"] = torch.zeros(5, weights["classifier.weight"].shape[1])
    save_file(weights, folder / "weights.safetensors")
    about = json.loads((folder / "model.json").read_text())
    about["weights_sha256"] = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
    (folder / "model.json").write_text(json.dumps(about))


def _lie(**changes: object):
    def change(folder: Path) -> None:
        about = json.loads((folder / "model.json").read_text())
        (folder / "model.json").write_text(json.dumps({**about, **changes}))

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_damage, "is damaged, or belongs to another model.json; get the model again"),
        (_other_classes, "'classifier.weight' is [5, 8] of torch.float32 there, but the network needs [3, 8]"),
        (_lie(classes=["cat"] * 10_000), "the network needs [10000, 8]"),
        (_lie(space={"name": "nasbench201", "channels": 9999, "cells_per_stage": 1}), "but the network needs"),
        (_lie(space={"name": "nasnet", "moon": 1}), "unknown setting of the space 'nasnet': 'moon'"),
        (_lie(genotype="|none~0|"), "genotype"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "there is no file of weights at"),
        (lambda folder: (folder / "model.json").write_text("{"), "is not valid JSON; get the model again"),
    ],
)
@pytest.mark.parametrize("command", ["export", "predict"])
def test_models_that_are_damaged_or_lie_are_refused(archgrad, model, command, change, sentence):
    change(model)
    Path("image.png").touch()
    code, out, err = archgrad(command, "run", *(["-o", "net.pt2"] if command == "export" else ["image.png"]))
    assert (code, out) == (2, "")
    assert sentence in err
    assert not Path("net.pt2").exists()
