"""The residual network to compare with, and the comparison."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from archgrad.spaces import RESNET, Cost
from archgrad.workflows.fit_report import AgainstBaseline, compare
from archgrad.workflows.limits import cost_of, equal_resnet

SHAPE = {"num_classes": 10, "input_channels": 3, "image_size": 32}


@pytest.mark.parametrize("parameters", [4_000, 1_000_000])
def test_equal_size_is_the_widest_that_is_not_larger(parameters: int) -> None:
    space = equal_resnet(Cost(parameters, 0), SHAPE)
    own, wider = (cost_of(replace(space, channels=space.channels + more), RESNET, SHAPE).parameters for more in (0, 1))
    assert own <= parameters < wider


def test_resnet20_has_its_published_size() -> None:
    assert equal_resnet(Cost(269_722, 0), SHAPE).channels == 16
    assert equal_resnet(Cost(269_721, 0), SHAPE).channels == 15


def test_a_tiny_network_is_compared_with_one_channel() -> None:
    assert equal_resnet(Cost(10, 0), SHAPE).channels == 1


def outputs_of(labels: list[int]) -> torch.Tensor:
    return torch.eye(3)[labels]


def test_only_images_that_one_of_them_gets_right_count() -> None:
    targets = torch.zeros(10, dtype=torch.int64)
    found = compare(outputs_of([0] * 8 + [1, 1]), outputs_of([0, 0] + [1] * 7 + [0]), targets)
    assert (found.accuracy, found.baseline) == (pytest.approx(80), pytest.approx(30))
    assert found.p_value == pytest.approx(2 * (1 + 7) / 2**7)  # at most one of seven tosses, two-sided
    assert compare(outputs_of([0] * 10), outputs_of([0] * 10), targets).p_value == 1


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (AgainstBaseline(90.0, 80.0, 0.01), "90.00 % against 80.00 % of ResNet-20 .*: it is better \\(p = 0.01\\)"),
        (AgainstBaseline(80.0, 90.0, 0.01), "it is WORSE \\(p = 0.01\\)"),
        (AgainstBaseline(90.0, 80.0, 0.05), "no clear difference \\(p = 0.05\\)"),
    ],
)
def test_the_verdict_in_words(found: AgainstBaseline, words: str) -> None:
    assert re.search(words, str(found))
