"""CIFAR from archives, folders and parquet."""

from __future__ import annotations

import os
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archgrad.data import Augmentation, cifar10, cifar100
from archgrad.data.sources.cifar import Cifar
from archgrad.errors import UserError

SMALL10 = replace(cifar10, rows=(20, 20))
SMALL100 = replace(cifar100, rows=(100, 100))


def pixels(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, 3072), dtype=np.uint8)


def official(layout: Cifar, seed: int, rows: int, **changes: Any) -> bytes:
    labels = [row % len(layout.classes) for row in range(rows)]
    content = {"data": pixels(rows, seed), layout.label_key: labels, "filenames": ["x.png"] * rows, **changes}
    return pickle.dumps({key.encode(): value for key, value in content.items()}, protocol=2)


def write_folder(layout: Cifar, root: Path) -> Path:
    folder = root / layout.folder
    folder.mkdir(parents=True)
    for seed, name in enumerate(layout.train_files + layout.test_files):
        (folder / name).write_bytes(official(layout, seed, layout.rows[0]))
    (folder / "batches.meta").write_bytes(b"never read")
    return folder


def write_archive(layout: Cifar, root: Path) -> Path:
    folder = write_folder(layout, root / "made")
    with tarfile.open(root / layout.archive, "w:gz", compresslevel=1) as archive:
        archive.add(folder, layout.folder)
    return root / layout.archive


@pytest.mark.parametrize("layout", [SMALL10, SMALL100], ids=lambda source: source.name)
@pytest.mark.parametrize("write", [write_archive, write_folder])
def test_official_files(layout: Cifar, write: Callable[[Cifar, Path], Path], tmp_path: Path) -> None:
    write(layout, tmp_path)
    data = layout(tmp_path)
    rows = layout.rows[0]
    expected = np.concatenate([pixels(rows, seed) for seed in range(len(layout.train_files))])
    assert np.array_equal(data.images.numpy(), expected.reshape(-1, 3, 32, 32))
    assert data.labels.tolist() == [row % len(layout.classes) for row in range(rows)] * len(layout.train_files)
    assert data.augmentation == Augmentation(crop_padding=4, flip=True)
    test = layout(tmp_path, train=False)
    assert np.array_equal(test.images.numpy().reshape(rows, -1), pixels(rows, len(layout.train_files)))


def test_full_size_test_batch_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / cifar10.folder
    folder.mkdir()
    (folder / "test_batch").write_bytes(official(cifar10, 0, 10_000, data=np.zeros((10_000, 3072), np.uint8)))
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    data = cifar10(train=False, limit=40, image_size=16)
    assert data.images.shape == (40, 3, 16, 16)
    assert data.labels.bincount().tolist() == [4] * 10
    assert data.augmentation.crop_padding == 2


def test_class_names() -> None:
    assert len(set(cifar10.classes)) == 10
    assert len(set(cifar100.classes)) == 100
    assert list(cifar100.classes) == sorted(cifar100.classes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [10] * 20}, "data_batch_1 is mislabeled: its labels go from 10 to 10"),
        ({"labels": [0] * 19}, "does not have a list of 20 integers"),
        ({"labels": ["a"] * 20}, "does not have a list of 20 integers"),
        ({"data": np.zeros((20, 3071), np.uint8)}, r"images of uint8 \[20, 3071\] and not uint8 \[20, 3072\]"),
        ({"data": np.zeros((20, 3072), np.float32)}, "images of float32"),
        ({"data": [1, 2]}, "images of list"),
    ],
)
def test_wrong_content_names_the_file(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = write_folder(SMALL10, tmp_path)
    (folder / "data_batch_1").write_bytes(official(SMALL10, 0, 20, **changes))
    with pytest.raises(UserError, match=message):
        SMALL10(tmp_path)


def test_truncated_and_incomplete_archives(tmp_path: Path) -> None:
    archive = write_archive(SMALL10, tmp_path)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz' is truncated"):
        SMALL10(tmp_path)
    archive.write_bytes(b"not gzip")
    with pytest.raises(UserError, match="truncated or damaged"):
        SMALL10(tmp_path)
    with tarfile.open(archive, "w:gz") as empty:
        empty.addfile(tarfile.TarInfo("other"))
    with pytest.raises(UserError, match="no usable cifar-10-batches-py/data_batch_1"):
        SMALL10(tmp_path)


def test_missing_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    with pytest.raises(UserError, match="--data-dir, or set the variable ARCHGRAD_DATA"):
        cifar10()
    with pytest.raises(UserError, match="no data folder at"):
        cifar100(tmp_path / "absent")
    with pytest.raises(UserError, match=r"CIFAR-100 is not in .* put cifar-100-python\.tar\.gz"):
        cifar100(tmp_path)
    folder = write_folder(SMALL10, tmp_path)
    (folder / "data_batch_3").unlink()
    with pytest.raises(UserError, match="data_batch_3"):
        SMALL10(tmp_path)


@pytest.fixture
def real() -> Path:
    root = Path(os.environ.get("ARCHGRAD_DATA", ""))
    if not os.environ.get("ARCHGRAD_DATA") or not (root / "cifar10" / "train.parquet").is_file():
        pytest.skip("set ARCHGRAD_DATA to a folder with cifar10/train.parquet and test.parquet to run this test")
    return root


def test_real_cifar10(real: Path) -> None:
    data = cifar10(real, limit=300)
    assert data.images.shape == (300, 3, 32, 32)
    assert data.labels.bincount().tolist() == [30] * 10
    assert data.classes[3] == "cat"
    assert 100 < data.images.float().mean() < 140
    small = cifar10(real, limit=300, image_size=16)
    assert torch.equal(small.images, data.resized(16).images)
    assert small.augmentation == data.resized(16).augmentation == Augmentation(2, True)


def test_real_cifar10_test_part(real: Path) -> None:
    data = cifar10(real, train=False, limit=100)
    assert data.labels.bincount().tolist() == [10] * 10
    assert not torch.equal(data.images, cifar10(real, train=False, limit=100, seed=1).images)
