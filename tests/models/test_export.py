"""Models that are saved, read, exported and used."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from varied_spaces import VARIED_SPACES, small_space

from archgrad.errors import UserError
from archgrad.models import Model, export_model
from archgrad.models.export import SUFFIXES
from archgrad.spaces import DARTS, NASBench201, StagedSpace
from tests.models.trained import CLASSES, model_of


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_a_saved_model_is_the_same(name: str, tmp_path: Path) -> None:
    model = model_of(small_space(name))
    again = Model.load(model.save(tmp_path / "model"))
    x = torch.randint(256, (3, 3, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    if name != "s4":  # its noise is drawn anew
        assert again.predict(x) == model.predict(x)
    assert (again.genotype, again.space, again.classes) == (model.genotype, model.space, model.classes)
    assert again.preprocessing == model.preprocessing
    assert again.about == {"accuracy": 51.5}
    assert not again.network.training


def test_two_cells_without_none_are_saved(tmp_path: Path) -> None:
    model = model_of(DARTS(channels=4, cells=2, exclude=("none",)))
    again = Model.load(model.save(tmp_path / "model"))
    assert again.genotype == model.genotype
    assert again.space.block_of(1) == "reduce"  # type: ignore[attr-defined]


def test_a_program_runs_without_archgrad(tmp_path: Path) -> None:
    model, x = model_of(small_space("darts")), torch.randn(2, 3, 16, 16)
    export_model(model, tmp_path / "model.pt2")
    torch.save((x, model.logits(x)), tmp_path / "expected.pt")
    code = """import sys; sys.modules["archgrad"] = None
import torch
x, expected = torch.load("expected.pt")
torch.testing.assert_close(torch.export.load("model.pt2").module()(x), expected, rtol=0, atol=1e-5)"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "suffix"), [("darts", ".pt2"), ("nasbench201", ".onnx"), ("nasbench1shot1-3", ".onnx")]
)
def test_exported_programs_compute_the_same(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    written = export_model(model_of(small_space(name), seed=2), path)
    assert written.error <= 1e-5
    assert written.file == path
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]


@pytest.mark.parametrize(("share", "accepted"), [(2e-5, True), (1e-3, False)])
def test_an_error_is_compared_with_the_largest_output(
    share: float, accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(small_space("nasbench201"))
    with torch.no_grad():
        model.network.classifier.bias.fill_(100.0)
    monkeypatch.setitem(SUFFIXES, ".pt2", lambda here: (b"", lambda x: (1 + share) * here.network(x)))
    with nullcontext() if accepted else pytest.raises(UserError, match=r"differs .* by 1\.\de-01.*larger tolerance"):
        export_model(model, tmp_path / "model.pt2")
    assert (tmp_path / "model.pt2").exists() == accepted


def test_an_exported_program_describes_itself(tmp_path: Path) -> None:
    model = model_of(NASBench201(channels=2, cells_per_stage=1), channels=1)
    export_model(model, tmp_path / "model.pt2")
    files = {"model.json": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=files)
    about = json.loads(files["model.json"])
    assert (about["preprocessing"]["mean"], about["classes"]) == ([0.4], list(CLASSES))


class Own(StagedSpace):
    name = "own-of-a-test"
    operations = NASBench201.operations


def test_a_space_of_ones_own_is_given_again(tmp_path: Path) -> None:
    model = model_of(Own(channels=2, cells_per_stage=1))
    model.save(tmp_path)
    with pytest.raises(UserError, match=r"load it in Python with Model\.load\(DIR, space=…\)"):
        Model.load(tmp_path)
    x = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    assert Model.load(tmp_path, space=model.space).predict(x) == model.predict(x)


def test_wrong_files_are_explained(tmp_path: Path) -> None:
    model = model_of(NASBench201(channels=2, cells_per_stage=1))
    model.save(tmp_path)
    description, weights = tmp_path / "model.json", tmp_path / "weights.safetensors"
    good = description.read_text()
    for text, sentence in [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"format": "other"}', "does not describe a model in the format"),
        (good.replace('"nasbench201"', '"os:system"'), "it must have a name and sizes"),
        (good.replace('"nasbench201"', '"moon"'), "unknown space 'moon'"),
        (good.replace('"channels": 2', '"channels": 3'), r"does not fit: .* but the network needs"),
        (good.replace('"image_size": 16', '"image_size": -1'), "image_size of Preprocessing is -1"),
        (good.replace('"cat"', "7"), "it must be a list of names"),
        (good.replace("0.4,", '"0.4",', 1), "it must be a list of numbers"),
        (good.replace("0.4,", f"{10**400},", 1), "mean of Normalization is"),
    ]:
        assert text != good
        description.write_text(text)
        with pytest.raises(UserError, match=sentence):
            Model.load(tmp_path)
    description.write_text(good)
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    with pytest.raises(UserError, match="is damaged"):
        Model.load(tmp_path)


def test_weights_for_other_classes_are_explained(tmp_path: Path) -> None:
    model = model_of(NASBench201(channels=2, cells_per_stage=1))
    model.save(tmp_path)
    other = load_file(tmp_path / "weights.safetensors")
    other["classifier.weight"] = torch.zeros(5, 8)
    save_file(other, tmp_path / "weights.safetensors")
    from archgrad.models.model_file import load_weights, read_weights

    path = tmp_path / "weights.safetensors"
    with pytest.raises(UserError, match=r"'classifier.weight' is \[5, 8\] .* but the network needs \[3, 8\]"):
        load_weights(model.network, read_weights(path.read_bytes(), path), path)
    with pytest.raises(UserError, match="is no file of weights"):
        read_weights(b"rubbish" * 9, path)


def test_other_formats_and_images_are_explained(tmp_path: Path) -> None:
    model = model_of(DARTS(channels=2, cells=3))
    with pytest.raises(UserError, match=r"unknown format of a model: '.h5'.*\.onnx"):
        export_model(model, tmp_path / "model.h5")
    with pytest.raises(UserError, match="the images have 2 channels, but the model needs 3"):
        model.predict(torch.zeros(1, 2, 8, 8, dtype=torch.uint8))
    with pytest.raises(UserError, match=r"give uint8 \[images, channels, height, width\]"):
        model.predict(torch.zeros(1, 3, 8, 8))
    assert not list(tmp_path.iterdir())


def test_a_batch_that_no_memory_holds_is_refused() -> None:
    model = model_of(NASBench201(channels=2, cells_per_stage=1))
    huge = replace(model, preprocessing=replace(model.preprocessing, image_size=10_000))
    with pytest.raises(UserError, match="100,000 images of 10000×10000 pixels would take at least"):
        huge.check_size(100_000)


def test_gray_images_become_color() -> None:
    model = model_of(DARTS(channels=2, cells=3))
    gray = torch.randint(256, (2, 1, 8, 8), dtype=torch.uint8)
    assert model.predict(gray) == model.predict(gray.expand(-1, 3, -1, -1))
