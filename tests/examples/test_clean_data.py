from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "clean_data.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.parametrize("seed", [0, 1])
def test_wrong_labels_lose_their_weight(example: dict[str, Any], capsys: pytest.CaptureFixture[str], seed: int) -> None:
    outcome = example["main"](seed)
    assert outcome.corrupted_weight < 0.25 < 0.75 < outcome.clean_weight
    assert outcome.auc > 0.95
    assert outcome.before + 0.015 < outcome.after < outcome.oracle + 0.02
    assert f"{outcome.auc:.4f}" in capsys.readouterr().out


def test_cleaning_is_repeatable(example: dict[str, Any]) -> None:
    train, valid, _ = example["split"](0)
    few = example["Part"](train.x[:100], train.y[:100])
    first, second = (example["clean"](few, valid) for _ in range(2))
    assert torch.equal(first, second)


def test_corrupted_labels_are_wrong_and_the_others_right(example: dict[str, Any]) -> None:
    train, _, _ = example["split"](0)
    corrupted, wrong = example["corrupt"](train, seed=0)
    assert torch.equal(corrupted.y != train.y, wrong)
    assert 0.35 < wrong.double().mean() < 0.45
    assert 0 <= corrupted.y.min() <= corrupted.y.max() < 10
