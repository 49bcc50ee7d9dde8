"""ImageNet16-120 from batches like the published ones, and pickles that are none."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archgrad.config import SearchConfig
from archgrad.data import Augmentation, imagenet16, load
from archgrad.data.catalog import check_data
from archgrad.errors import NoTestImagesError, UserError
from archgrad.tables import datasets

ROWS = 60
"""In each file: ten files hold three images of each of 200 classes."""


def pixels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (ROWS, 768), dtype=np.uint8)


def batch(seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Labels begin at 1; those above 120 are of classes that the benchmark leaves out."""
    labels = [(seed * ROWS + row) % 200 + 1 for row in range(ROWS)]
    return {"data": pixels(seed), "labels": labels, "mean": np.full(768, 0.5), **changes}


def write_imagenet16(root: Path, protocol: int = 2) -> Path:
    for number in range(10):
        (root / f"train_data_batch_{number + 1}").write_bytes(pickle.dumps(batch(number), protocol))
    validation = {key: value for key, value in batch(10).items() if key != "mean"}
    (root / "val_data").write_bytes(pickle.dumps(validation, protocol))
    return root


@pytest.mark.parametrize("protocol", [2, 4])
def test_images_labels_and_augmentation(tmp_path: Path, protocol: int) -> None:
    data = imagenet16(write_imagenet16(tmp_path, protocol))
    assert data.name == "imagenet16-120"
    assert (data.classes[0], data.classes[-1], data.num_classes) == ("1", "120", 120)
    assert data.labels.bincount().tolist() == [3] * 120
    assert data.labels.tolist()[118:122] == [118, 119, 0, 1]
    assert np.array_equal(data.images[61].numpy(), pixels(1)[1].reshape(3, 16, 16))
    assert np.array_equal(data.images[121].numpy(), pixels(3)[21].reshape(3, 16, 16))  # the class 2 is there again
    assert data.augmentation == Augmentation(crop_padding=2, flip=True)
    test = imagenet16(tmp_path, train=False)
    assert np.array_equal(test.images[0].numpy(), pixels(10)[0].reshape(3, 16, 16))
    assert (len(test), test.num_classes) == (ROWS, 120)


def test_a_search_shows_its_accuracy_in_the_table() -> None:
    assert SearchConfig(data="imagenet16:x").oracle_datasets(datasets()) == ("imagenet16-120",)
    assert SearchConfig(data="cifar100").oracle_datasets(datasets()) == ("cifar100",)
    assert SearchConfig(data="digits").oracle_datasets(datasets()) == ()
    assert SearchConfig(data="imagenet16:x", oracle="none").oracle_datasets(datasets()) == ()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for attempt in (lambda: check_data(f"imagenet16:{tmp_path}"), lambda: load(f"imagenet16:{tmp_path}")):
        with pytest.raises(UserError, match=r"ImageNet16-120 is not in .*; give the folder that has train_data_batch"):
            attempt()
    (write_imagenet16(tmp_path) / "val_data").unlink()
    with pytest.raises(NoTestImagesError, match="give the folder that has val_data"):
        imagenet16(tmp_path, train=False)
    (tmp_path / "train_data_batch_7").unlink()
    with pytest.raises(UserError, match=r"there is no file of ImageNet16-120 at .*train_data_batch_7'; check the path"):
        imagenet16(tmp_path)


def test_a_folder_without_some_classes_is_refused(tmp_path: Path) -> None:
    for number in range(1, 11):
        (tmp_path / f"train_data_batch_{number}").write_bytes(pickle.dumps(batch(), 2))
    with pytest.raises(UserError, match=r"'imagenet16-120' has no images of 60 of its 120 classes \(61, 62"):
        imagenet16(tmp_path)


class Runs:
    def __reduce__(self) -> Any:
        return os.mkdir, ("hacked",)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data": Runs()}, r"train_data_batch_3' was refused: it asks to run (posix|nt)\.mkdir"),
        ({"labels": [0] * 60}, "mislabeled: its labels go from 0 to 0, but must be from 1 to 1000"),
        ({"labels": [1001] * 60}, "mislabeled: its labels go from 1001 to 1001"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    write_imagenet16(tmp_path)
    (tmp_path / "train_data_batch_3").write_bytes(pickle.dumps(batch(**changes), 2))
    with pytest.raises(UserError, match=problem):
        imagenet16(tmp_path)
    assert not Path("hacked").exists()
