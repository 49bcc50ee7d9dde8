"""SVHN from MATLAB files like the published ones, and files that are none."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from archgrad.data import Augmentation, load, svhn
from archgrad.data.catalog import check_data
from archgrad.errors import NoTestImagesError, UserError

COUNT = 40


def content(seed: int = 0, count: int = COUNT) -> dict[str, Any]:
    """Images [height, width, channel, number], and labels whose 10 is the digit 0."""
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
    return {"X": pixels, "y": (np.arange(count, dtype=np.uint8) % 10 + 1)[:, None]}


def mat(values: dict[str, Any], packed: bool = True) -> bytes:
    stream = io.BytesIO()
    savemat(stream, values, do_compression=packed)
    return stream.getvalue()


def write_svhn(root: Path) -> Path:
    for seed, part in enumerate(("train", "test")):
        (root / f"{part}_32x32.mat").write_bytes(mat(content(seed)))
    return root


@pytest.mark.parametrize("packed", [True, False])
def test_images_labels_and_augmentation(tmp_path: Path, packed: bool) -> None:
    write_svhn(tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(mat(content(), packed))
    data = svhn(tmp_path)
    assert data.name == "svhn"
    assert data.classes == tuple("0123456789")
    assert data.labels.tolist()[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    image = content()["X"][..., 7]
    assert np.array_equal(data.images[7].numpy(), image.transpose(2, 0, 1))
    assert data.augmentation == Augmentation(crop_padding=4, flip=False)
    test = svhn(tmp_path, train=False)
    assert np.array_equal(test.images[3].numpy(), content(1)["X"][..., 3].transpose(2, 0, 1))


def test_labels_may_be_doubles(tmp_path: Path) -> None:
    values = content()
    (tmp_path / "train_32x32.mat").write_bytes(mat({**values, "y": values["y"].astype(float)}))
    assert svhn(tmp_path).labels.tolist()[9:11] == [0, 1]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for attempt in (lambda: check_data(f"svhn:{tmp_path}"), lambda: load(f"svhn:{tmp_path}")):
        with pytest.raises(UserError, match=r"SVHN is not in .*; give the folder that has train_32x32\.mat"):
            attempt()
    (write_svhn(tmp_path) / "test_32x32.mat").unlink()
    assert len(svhn(tmp_path)) == COUNT
    with pytest.raises(NoTestImagesError, match=r"give the folder that has test_32x32\.mat"):
        svhn(tmp_path, train=False)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"X": np.zeros((32, 32, 3, COUNT))}, r"images X of float64 \[32, 32, 3, 40\] and labels y of uint8 \[40, 1\]"),
        ({"X": np.zeros((32, 32, 3, COUNT), object)}, "its variable X is no array of real numbers"),
        ({"X": {"a": 1}}, "its variable X is no array of real numbers"),
        ({"y": "text"}, "its variable y is no array of real numbers"),
        ({"y": np.full((COUNT, 1), 1 + 1j)}, "its variable y is no array of real numbers"),
        ({"X": np.zeros((16, 16, 3, COUNT), np.uint8)}, r"images X of uint8 \[16, 16, 3, 40\] and"),
        ({"X": np.zeros((32, 32, COUNT), np.uint8)}, r"images X of uint8 \[32, 32, 40\]"),
        ({"y": np.ones((COUNT - 1, 1), np.uint8)}, r"labels y of uint8 \[39, 1\]"),
        ({"y": np.zeros((COUNT, 1), np.uint8)}, "mislabeled: the labels of SVHN go from 1 to 10"),
        ({"y": np.full((COUNT, 1), 11, np.uint8)}, "mislabeled"),
        ({"y": np.full((COUNT, 1), np.nan)}, "mislabeled"),
        ({"y": np.full((COUNT, 1), 1.5)}, "mislabeled"),
        ({"y": np.full((COUNT, 1), 10, np.uint8)}, r"has no images of 9 of its 10 classes \(1, 2, 3"),
    ],
)  # fmt: skip
def test_wrong_content_is_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    (tmp_path / "train_32x32.mat").write_bytes(mat({**content(), **changes}))
    with pytest.raises(UserError, match=problem):
        svhn(tmp_path)


def bomb() -> bytes:
    """A variable that says that it is small, and unpacks to a gigabyte."""
    whole = mat(content(count=2), packed=False)
    small = struct.pack("<II", 2, 2 * 32 * 32 * 3)
    begin = whole[128 : whole.index(small)] + struct.pack("<II", 2, 1 << 30)
    packer = zlib.compressobj(1)
    packed = packer.compress(begin) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(4)) + packer.flush()
    return whole[:128] + struct.pack("<II", 15, len(packed)) + packed


def with_sizes(*sizes: int) -> bytes:
    whole = mat(content(), packed=False)
    return whole.replace(struct.pack("<4i", 32, 32, 3, COUNT), struct.pack("<4i", *sizes))


GOOD = mat(content())
OTHER = mat({"other": {"any": ["thing", np.ones(3)]}})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b""), "it does not begin as a MAT-file of version 5"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600)), "it does not begin as a MAT-file"),
        (lambda path: path.write_bytes(GOOD[:128]), r"labels y of float64 \[0\]"),
        (lambda path: path.write_bytes(GOOD[: len(GOOD) // 2]), r"is truncated .*\(it ends too early\)"),
        (lambda path: path.write_bytes(GOOD[:-3]), "is truncated or is no MATLAB file"),
        (lambda path: path.write_bytes(GOOD[:200] + bytes(100) + GOOD[300:]), "is truncated or is no MATLAB file"),
        (lambda path: path.write_bytes(GOOD + bytes(8)), "it has an element of kind 0 where a variable belongs"),
        (lambda path: path.write_bytes(GOOD[:128] + OTHER[128:]), r"images X of float64 \[0\]"),
        (lambda path: path.write_bytes(with_sizes(3, 32, 32, 99)), "cannot reshape"),
        (lambda path: path.write_bytes(bomb()), "it unpacks to more than the published files"),
        (os.mkfifo, "is a pipe"),
        (Path.mkdir, "is a folder"),
    ],
)
def test_files_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], problem: str
) -> None:
    monkeypatch.setattr("archgrad.data.sources.svhn._MOST_UNPACKED", 1 << 20)
    make(tmp_path / "train_32x32.mat")
    with pytest.raises(UserError, match=problem) as caught:
        svhn(tmp_path)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
