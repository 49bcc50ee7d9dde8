"""``archgrad cost``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.data import Normalization
from archgrad.models import Model, Preprocessing
from archgrad.spaces import Genotype, NASBench201

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def test_a_genotype_is_measured_at_the_published_size(archgrad):
    code, out, _ = archgrad("cost", CELL, "--no-latency", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["parameters"], found["multiply_adds"]) == (1_288_506, 184_730_240)
    assert (found["space"], found["channels"], found["cells"]) == ("nasbench201", 16, 5)
    assert "latency_ms" not in found


def test_a_run_is_measured_at_its_own_size_and_timed(archgrad, tmp_path):
    sizes = ("--channels", 4, "--cells", 1, "--epochs", 1, "--limit", 60, "--batch-size", 20)
    archgrad.run("search", "--method", "gaea", *sizes, "--out", tmp_path / "run")
    code, out, err = archgrad("cost", tmp_path / "run")
    assert code == 0
    assert all(word in err for word in ("timing", "64", "--no-latency"))
    assert "nasbench201: width 4, depth 1, images of 1×8×8, 10 outputs" in out
    assert "for a batch of 64" in out


def test_a_limit_chooses_the_width(archgrad):
    found = json.loads(archgrad.run("cost", CELL, "--max-madds", "2.5M", "--image-size", 8, "--no-latency", "--json"))
    assert found["multiply_adds"] <= 2_500_000
    assert found["channels"] < 16


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["darts-v9"], "darts-v9"),
        ([CELL, "--space", "darts"], "this genotype has the blocks cell, but the space 'darts' has normal, reduce"),
        ([CELL, "--max-madds", "10"], "multiply-adds, more than 10; give higher limits"),
        ([CELL, "--max-madds", "-3M"], "--max-madds is '-3M'; write a positive number"),
        ([CELL, "--stem", "moon"], "stem"),
        (["runs/none/genotype.json"], "there is no file runs/none/genotype.json"),
    ],
)
def test_mistakes_are_explained(archgrad, arguments, sentence):
    code, out, err = archgrad("cost", *arguments, "--no-latency")
    assert code == 2
    assert sentence in err
    assert not out


def test_a_model_knows_its_images(archgrad: Any, tmp_path: Path) -> None:
    space = NASBench201(channels=4, cells_per_stage=1)
    images = Preprocessing(1, 8, Normalization((0.5,), (0.2,)))
    network = space.network(Genotype.parse(CELL), num_classes=3, input_channels=1)
    Model(network, space, Genotype.parse(CELL), images, ("a", "b", "c")).save(tmp_path)
    found = json.loads(archgrad.run("cost", tmp_path, "--json", "--no-latency"))
    assert (found["channels"], found["input_channels"], found["image_size"], found["classes"]) == (4, 1, 8, 3)


def test_a_run_of_images_in_memory_is_measured_with_a_given_shape(archgrad: Any, tmp_path: Path) -> None:
    pixels, labels = torch.arange(2560).remainder(251).to(torch.uint8).view(40, 1, 8, 8), torch.arange(40) % 2
    ag.search(NASBench201(channels=2, cells_per_stage=1), "gaea", (pixels, labels), epochs=1, out=tmp_path / "run")
    assert archgrad("cost", tmp_path / "run")[0] == 2
    shape = ("--image-size", 8, "--input-channels", 1, "--classes", 2)
    assert json.loads(archgrad.run("cost", tmp_path / "run", *shape, "--json", "--no-latency"))["image_size"] == 8
