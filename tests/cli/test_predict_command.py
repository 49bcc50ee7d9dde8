"""``archgrad predict``."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from archgrad.data import LoadOptions
from archgrad.data.sources.decode import Encoded, decode_one
from archgrad.models import Model, OnnxModel, export_model
from archgrad.spaces import NASBench201
from tests.models.trained import CLASSES, model_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model folder with an exported file beside it."""
    model = model_of(NASBench201(channels=2, cells_per_stage=1))
    path = model.save(tmp_path_factory.mktemp("models") / "model")
    export_model(model, path.with_name("net.onnx"))
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with images of several sizes and modes, of which one is broken and one is hidden."""
    home = tmp_path / "images"
    (home / "deep" / "er").mkdir(parents=True)
    Image.effect_noise((20, 30), 90).convert("RGB").save(home / "a.png")
    Image.effect_noise((16, 16), 90).save(home / "gray.jpg")
    Image.radial_gradient("L").convert("RGB").save(home / "deep" / "er" / "big.PNG")
    Image.new("RGB", (8, 8)).save(home / ".hidden.png")
    (home / "deep" / "notes.txt").write_text("no image")
    (home / "deep" / "circle").symlink_to(home)
    return home


def expected(model: Model, path: Path) -> tuple[str, float]:
    """Predict one image on its own."""
    image = decode_one(Encoded(path.name, lambda: path.open("rb")), LoadOptions(image_size=16), 3)
    found = model.predict(image[None])[0]
    return found.label, found.probability


def test_folders_are_searched_and_columns_are_aligned(archgrad, folder, images):
    code, out, err = archgrad("predict", folder, images, "--batch-size", 2)
    assert (code, err) == (0, "")
    lines, model = out.splitlines(), Model.load(folder)
    paths = [images / "a.png", images / "gray.jpg", images / "deep" / "er" / "big.PNG"]
    assert [line.split("  ")[0].rstrip() for line in lines] == list(map(str, paths))
    for line, path in zip(lines, paths, strict=True):
        label, probability = expected(model, path)
        assert label in line
        assert line.endswith(f"{100 * probability:5.1f} %")
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("kind", ["folder", "onnx"])
def test_json_has_the_best_classes(archgrad, folder, images, kind):
    path = images / "a.png"
    model = folder if kind == "folder" else folder.with_name("net.onnx")
    code, out, _ = archgrad("predict", model, path, "--top", 2, "--json")
    (found,) = json.loads(out)
    label, probability = expected(Model.load(folder), path)
    assert code == 0
    assert (found["path"], found["label"]) == (str(path), label)
    assert found["probability"] == pytest.approx(probability, abs=1e-5)
    assert found["top"][0] == {"label": found["label"], "probability": found["probability"]}
    assert len(found["top"]) == 2
    assert found["top"][0]["probability"] >= found["top"][1]["probability"]
    assert len(json.loads(archgrad.run("predict", model, path, "--top", 99, "--json"))[0]["top"]) == len(CLASSES)


def test_broken_images_are_named_and_the_others_are_predicted(archgrad, folder, images):
    (images / "broken.png").write_bytes((images / "a.png").read_bytes()[:100])
    os.mkfifo(images / "pipe.png")
    code, out, err = archgrad("predict", folder, images, "missing.png")
    assert code == 2
    assert len(out.splitlines()) == 3
    assert "broken.png' cannot be read" in err
    assert "pipe.png' is a pipe" in err
    assert "there is no image at 'missing.png'" in err
    assert err.splitlines()[-1] == "error: 3 of 6 images cannot be read; replace or remove them."
    assert json.loads(archgrad("predict", folder, "missing.png", "--json")[1]) == []


def test_color_becomes_gray_for_a_gray_model(archgrad, tmp_path, images):
    model_of(NASBench201(channels=2, cells_per_stage=1), channels=1).save(tmp_path / "gray-model")
    code, out, err = archgrad("predict", "gray-model", images)
    assert (code, len(out.splitlines()), err) == (0, 3, "")


def test_odd_names_do_not_reach_the_terminal(archgrad, folder, tmp_path):
    model = Model.load(folder)
    object.__setattr__(model, "classes", ("\x1b[31mred", "two\nlines", "50 %"))
    model.save(tmp_path / "model")
    Image.new("RGB", (8, 8)).save(tmp_path / "\x1b[31m.png")
    out = archgrad.run("predict", "model", "\x1b[31m.png", "--top", 3)
    assert len(out.splitlines()) == 1
    assert "\x1b" not in out
    assert "50 %" in out


@pytest.mark.parametrize("predicts", ["labels", "numbers"])
def test_labels_and_numbers_are_predicted_too(archgrad, folder, images, tmp_path, predicts):
    model = Model.load(folder)
    object.__setattr__(model, "about", {"predicts": predicts, "threshold": 0.3})
    model.save(tmp_path / "model")
    path = images / "a.png"
    image = decode_one(Encoded(path.name, lambda: path.open("rb")), LoadOptions(image_size=16), 3)
    (outputs,) = model.logits(model.preprocessing(image[None])).tolist()
    chosen = {name: 1 / (1 + math.exp(-one)) for name, one in zip(CLASSES, outputs, strict=True)}
    (found,) = json.loads(archgrad.run("predict", "model", path, "--json"))
    if predicts == "numbers":
        assert found["numbers"] == pytest.approx(outputs, abs=1e-5)
        assert f"{outputs[0]:.5f}"[:-1] in archgrad.run("predict", "model", path)
    else:
        assert {one["label"]: pytest.approx(one["probability"], abs=1e-5) for one in found["labels"]} == {
            name: one for name, one in chosen.items() if one > 0.3
        }
        archgrad.run("predict", "model", images)
    assert "--top is 2" in archgrad.error("predict", "model", path, "--top", 2)


def test_an_onnx_file_whose_outputs_are_no_floats_is_refused(archgrad, folder, images):
    import onnx

    proto = onnx.load(folder.with_name("net.onnx"))
    whole = proto.graph.output[0].name
    proto.graph.node.append(onnx.helper.make_node("Cast", [whole], ["whole"], to=onnx.TensorProto.INT64))
    proto.graph.output[0].name = "whole"
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(proto, "whole.onnx")
    code, out, err = archgrad("predict", "whole.onnx", images / "a.png")
    assert (code, out) == (2, "")
    assert "torch.int64" in err


def test_outputs_that_are_no_numbers_are_refused(archgrad, folder, images, tmp_path):
    model = Model.load(folder)
    torch.nn.init.constant_(model.network.classifier.weight, float("nan"))
    model.save(tmp_path / "model")
    for line in (["predict", "model", images], ["export", "model", "-o", "net.pt2"]):
        code, out, err = archgrad(*line)
        assert (code, out) == (2, "")
        assert "the model computes NaN or infinite outputs" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["net.pt2", "a.png"], "'net.pt2' is not read: torch.export.load unpickles"),
        (["rubbish.onnx", "a.png"], "'rubbish.onnx' is no ONNX model that onnxruntime can run"),
        (["none.onnx", "a.png"], "there is no model at 'none.onnx'"),
        (["none", "a.png"], "there is no model at 'none'"),
        (["model", "empty"], "the folder 'empty' has no images"),
        (["model", "a.png", "--device", "moon"], "the device 'moon' cannot be used"),
        (["model"], "IMAGES"),
        (["model", "a.png", "--top", "0"], "--top"),
    ],
)
def test_mistakes_are_explained(archgrad, folder, tmp_path, arguments, sentence):
    (tmp_path / "model").symlink_to(folder)
    (tmp_path / "rubbish.onnx").write_bytes(b"rubbish")
    (tmp_path / "empty").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    code, out, err = archgrad("predict", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def _described(folder: Path, **changes: object) -> Path:
    """Return an exported file with another description."""
    import onnx

    proto = onnx.load(folder.with_name("net.onnx"))
    entry = next(one for one in proto.metadata_props if one.key == "model.json")
    entry.value = json.dumps({**json.loads(entry.value), **changes})
    onnx.save(proto, "lie.onnx")
    return Path("lie.onnx")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"classes": ["cat"]}, "the model computes [1, 3] for 1 images of 1 classes"),
        ({"preprocessing": {"channels": 1, "image_size": 9, "resize": "pad", "mean": [0], "std": [1]}}, "cannot run"),
        ({"preprocessing": 7}, "the preprocessing of the model is 7"),
        (
            {"preprocessing": {"channels": 4, "image_size": 9, "resize": "pad", "mean": [0] * 4, "std": [1] * 4}},
            "1 or 3",
        ),
        ({"format": "other"}, "does not describe a model in the format"),
    ],
)
def test_an_onnx_file_that_lies_is_refused(archgrad, folder, images, changes, sentence):
    code, out, err = archgrad("predict", _described(folder, **changes), images / "a.png")
    assert (code, out) == (2, "")
    assert sentence in err


def test_an_onnx_file_reads_no_other_files(archgrad, folder, images):
    import onnx

    whole = onnx.load(folder.with_name("net.onnx"))
    onnx.save(whole, "net.onnx", save_as_external_data=True, location="secret.bin", size_threshold=500)
    assert Path("secret.bin").exists()
    code, out, err = archgrad("predict", "net.onnx", images / "a.png")
    assert (code, out) == (2, "")
    assert "'net.onnx' is no ONNX model that onnxruntime can run" in err
    proto = onnx.load(folder.with_name("net.onnx"))
    del proto.metadata_props[:]
    onnx.save(proto, "bare.onnx")
    assert "does not tell its classes" in archgrad.error("predict", "bare.onnx", images / "a.png")


def test_python_predicts_with_an_exported_file(folder):
    x = torch.randint(256, (4, 3, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    exported, model = OnnxModel.load(folder.with_name("net.onnx")), Model.load(folder)
    for one, other in zip(exported.predict(x), model.predict(x), strict=True):
        assert one.label == other.label
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
