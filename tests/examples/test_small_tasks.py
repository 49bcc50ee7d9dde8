from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag

EXAMPLE = Path(__file__).parents[2] / "examples" / "small_tasks.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_classes_are_numbered_anew_and_turns_are_labels(example: dict[str, Any]) -> None:
    data = ag.data.digits()
    five = ag.data.ImageData("many", data.images.repeat(2, 1, 1, 1), data.labels.repeat(2), data.classes)
    images, labels = example["of_classes"](five, (1, 3, 5, 7, 9), 1000)
    assert len(images) == 1000
    assert labels.bincount().tolist() == [200] * 5
    turned, turns = example["rotated"](data.images[:8])
    assert turns.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert torch.equal(turned[1].rot90(-1, (1, 2)), data.images[1])


def test_the_archives_are_read_by_a_search(
    example: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.randint(256, (2500, 3, 16, 16), dtype=torch.uint8)
    likeness = ag.data.ImageData("like cifar10", images, torch.arange(2500) % 10, tuple("abcdefghij"))
    monkeypatch.setattr(ag.data, "cifar10", lambda **settings: likeness)
    example["main"](tmp_path)
    found = {path.stem: ag.data.npz(path) for path in sorted(tmp_path.iterdir())}
    assert {name: (len(data), data.num_classes, data.channels) for name, data in found.items()} == {
        "animals": (1000, 5, 3),
        "few": (200, 10, 3),
        "gray": (1000, 10, 1),
        "mixed": (1000, 5, 3),
        "rotations": (1000, 4, 1),
        "ten": (1000, 10, 3),
    }
