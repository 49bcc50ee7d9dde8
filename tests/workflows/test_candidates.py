"""The networks that compete in a fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from archgrad.spaces import DARTS, MobileNet, NASBench1Shot1, SearchSpace
from archgrad.workflows.candidates import Candidate, network_candidates, pretrained, shape_of
from archgrad.workflows.length import Length
from archgrad.workflows.limits import Limits, cost_of
from tests.models.trained import model_of
from tests.workflows.fake_fit import FOUND, pictures

WORK = 4e7
SHAPE = shape_of(pictures(10, 32), 10)
NONE = Limits.of(None, None, None)


def of_kinds(size: int = 32, limits: Limits = NONE, work: float = WORK) -> dict[str, Candidate]:
    return {one.space: one for one in network_candidates([FOUND], {**SHAPE, "image_size": size}, work, limits, 4)}


def test_four_kinds_compete() -> None:
    found = network_candidates([FOUND], SHAPE, WORK, NONE, 4)
    assert [str(one) for one in found] == [
        "ResNet-20, 16 channels, 32 pixels",
        "searched cell, 1 cell per stage, 24 channels, 32 pixels",
        "best cell of NAS-Bench-201, 1 cell per stage, 16 channels, 32 pixels",
        "MobileNetV2 of 8 blocks, 16 channels, 32 pixels",
    ]


def test_a_mobilenet_has_a_quarter_of_the_multiply_adds() -> None:
    madds = {name: cost_of(one.sized, one.parsed, SHAPE).multiply_adds for name, one in of_kinds(work=4e8).items()}
    assert 0.2 < madds["mobilenet"] / madds["resnet"] < 0.3


@pytest.mark.parametrize(("size", "stem"), [(8, "cifar"), (64, "cifar"), (96, "imagenet")])
def test_the_stem_of_a_mobilenet_suits_the_images(size: int, stem: str) -> None:
    one = of_kinds(size)["mobilenet"]
    assert getattr(one.sized, "stem") == stem  # noqa: B009 - not all spaces have one
    training = one.training(pictures(10, size), Length(1, 10), {})
    assert training.network.base == one.sized
    assert Candidate.of(one.to_dict()) == one


def test_a_mobilenet_keeps_the_limits() -> None:
    one = of_kinds(limits=Limits.of("50k", None, None))["mobilenet"]
    assert cost_of(one.sized, one.parsed, SHAPE).parameters <= 50_000


@pytest.mark.parametrize(
    "space",
    [MobileNet(channels=4, cells=3, stem="imagenet"), DARTS(channels=4, cells=5), NASBench1Shot1(number=2, channels=4)],
    ids=lambda one: one.name,
)
def test_a_trained_model_of_any_space_competes(tmp_path: Path, space: SearchSpace) -> None:
    model = model_of(space)
    model.save(tmp_path)
    one = pretrained(tmp_path, {**SHAPE, "image_size": 8}, NONE)
    assert (one.sized, one.parsed) == (space, model.genotype)
    assert str(one).startswith(f"the model in {tmp_path}")
