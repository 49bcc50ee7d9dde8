"""Images in parquet files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_files import pa, pixels, png, pq, write_parquet
from spying import spied

from archgrad.data import Parquet, parquet
from archgrad.errors import UserError


@pytest.mark.parametrize(
    ("layout", "label"), [("struct", "label"), ("flat", "labels"), ("plain", "fine_label"), ("struct", "y")]
)
def test_parquet_layouts(tmp_path: Path, layout: str, label: str) -> None:
    data = parquet(write_parquet(tmp_path / "some.parquet", layout=layout, label=label))
    expected = np.stack([pixels(number) for number in range(12)]).transpose(0, 3, 1, 2)
    assert np.array_equal(data.images.numpy(), expected)
    assert data.labels.tolist() == [number % 3 for number in range(12)]
    assert data.classes == ("0", "1", "2")
    assert data.name == "parquet:some.parquet"


def test_parquet_class_names(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", names=["ant", "bee", "cat"])
    assert parquet(path).classes == ("ant", "bee", "cat")
    assert Parquet(classes=("x", "y", "z"))(path).classes == ("x", "y", "z")


def test_parquet_limit_and_size_equal_doing_it_afterwards(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train-0.parquet", 300)
    write_parquet(tmp_path / "train-1.parquet", 300, start=300)
    whole = parquet(tmp_path)
    assert len(whole) == 600
    for size in (4, 5, 12):
        some = parquet(tmp_path, limit=31, image_size=size, seed=4)
        expected = whole.limited(31, 4).resized(size)
        assert torch.equal(some.images, expected.images)
        assert torch.equal(some.labels, expected.labels)
        assert some.augmentation == expected.augmentation


def test_parquet_decodes_only_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from archgrad.data.sources import decode

    decoded = spied(monkeypatch, decode, "_decode", lambda file, size: file.name)
    parquet(write_parquet(tmp_path / "a.parquet", 300), limit=6)
    assert len(decoded) == 6


def test_parquet_folders_and_lists(tmp_path: Path) -> None:
    train = write_parquet(tmp_path / "train.parquet", 12)
    write_parquet(tmp_path / "test.parquet", 6, start=100)
    assert len(parquet(tmp_path)) == 12
    assert len(parquet(tmp_path, train=False)) == 6
    train.unlink()
    with pytest.raises(UserError, match=r"has test\.parquet; give it files that start with train"):
        parquet(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no parquet files"):
        parquet(tmp_path / "empty")
    with pytest.raises(UserError, match="no parquet file or folder at"):
        parquet(tmp_path / "absent.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1, None] * 4}, "4 rows without a label"),
        ({"labels": ["a", "b", "c"] * 4}, "are string; number them"),
        ({"labels": [0, 1, 10**12] * 4}, "mislabeled: it has 12 images but a label 1000000000000"),
        ({"names": ["a", "b", "c", "bee"]}, r"no images of 1 of its 4 classes \(bee\); add images"),
        ({"encoded": [b"no image"] * 12}, r"the image in row 0 of 'a\.parquet' cannot be read"),
        ({"encoded": [png(pixels(0))] * 11 + [png(pixels(0))[:60]]}, "the image in row 11 of"),
        ({"encoded": [png(pixels(0))] * 11 + [None]}, "the image in row 11 of .* is missing"),
        (
            {"encoded": [png(pixels(0))] * 11 + [png(pixels(0, 9, 10))]},
            "from 8×8 .* to 9×10 pixels .in row 11 .*--image-size 8",
        ),
        ({"label": "target"}, "no label column; it has img, target. Name it one of: label"),
    ],
)
def test_parquet_mistakes(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parquet(write_parquet(tmp_path / "a.parquet", **changes), strict=True)


def test_parquet_without_images_or_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": [0, 1], "text": ["a", "b"]}), path)
    with pytest.raises(UserError, match="no column of encoded images; it has label, text"):
        parquet(path)
    whole = write_parquet(path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"a\.parquet' is truncated"):
        parquet(path)


def test_missing_extras_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r'Pillow, which is not installed; run: pip install "archgrad\[images\]"'):
        parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pyarrow, which is not installed"):
        parquet(path)
