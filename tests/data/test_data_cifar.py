"""CIFAR from archives, folders and parquet; pickles that try to run code."""

from __future__ import annotations

import io
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

from archgrad.data import Augmentation, ImageData, cifar10, cifar100
from archgrad.data.sources.cifar import cifar
from archgrad.data.sources.cifar_layout import CIFAR10, CIFAR100, CifarLayout
from archgrad.data.sources.safe_pickle import read_pickle
from archgrad.errors import UserError

SMALL10 = replace(CIFAR10, rows=(20, 20))
SMALL100 = replace(CIFAR100, rows=(100, 100))


def pixels(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, 3072), dtype=np.uint8)


def official(layout: CifarLayout, seed: int, rows: int, **changes: Any) -> bytes:
    labels = [row % len(layout.classes) for row in range(rows)]
    content = {"data": pixels(rows, seed), layout.label_key: labels, "filenames": ["x.png"] * rows, **changes}
    return pickle.dumps({key.encode(): value for key, value in content.items()}, protocol=2)


def write_folder(layout: CifarLayout, root: Path) -> Path:
    folder = root / layout.folder
    folder.mkdir(parents=True)
    for seed, name in enumerate(layout.train_files + layout.test_files):
        (folder / name).write_bytes(official(layout, seed, layout.rows[0]))
    (folder / "batches.meta").write_bytes(b"never read")
    return folder


def write_archive(layout: CifarLayout, root: Path) -> Path:
    folder = write_folder(layout, root / "made")
    with tarfile.open(root / layout.archive, "w:gz", compresslevel=1) as archive:
        archive.add(folder, layout.folder)
    return root / layout.archive


def read(layout: CifarLayout, root: Path, train: bool = True, **sizes: Any) -> ImageData:
    return cifar(layout, root, train, sizes.get("limit"), sizes.get("image_size"), 0)


@pytest.mark.parametrize("layout", [SMALL10, SMALL100])
@pytest.mark.parametrize("write", [write_archive, write_folder])
def test_official_files(layout: CifarLayout, write: Callable[[CifarLayout, Path], Path], tmp_path: Path) -> None:
    write(layout, tmp_path)
    data = read(layout, tmp_path)
    rows = layout.rows[0]
    expected = np.concatenate([pixels(rows, seed) for seed in range(len(layout.train_files))])
    assert np.array_equal(data.images.numpy(), expected.reshape(-1, 3, 32, 32))
    assert data.labels.tolist() == [row % len(layout.classes) for row in range(rows)] * len(layout.train_files)
    assert data.augmentation == Augmentation(crop_padding=4, flip=True)
    test = read(layout, tmp_path, train=False)
    assert np.array_equal(test.images.numpy().reshape(rows, -1), pixels(rows, len(layout.train_files)))


def test_full_size_test_batch_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / CIFAR10.folder
    folder.mkdir()
    (folder / "test_batch").write_bytes(official(CIFAR10, 0, 10_000, data=np.zeros((10_000, 3072), np.uint8)))
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    data = cifar10(train=False, limit=40, image_size=16)
    assert data.images.shape == (40, 3, 16, 16)
    assert data.labels.bincount().tolist() == [4] * 10
    assert data.augmentation.crop_padding == 2


def test_class_names() -> None:
    assert len(set(CIFAR10.classes)) == 10
    assert len(set(CIFAR100.classes)) == 100
    assert list(CIFAR100.classes) == sorted(CIFAR100.classes)


def test_python_2_pickles() -> None:
    """The official files have byte strings where Python 3 would write text."""
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
        b"U\x01b\x87Rq\x05(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff"
        b"\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06abcdeftbU\x06labelsq\x08]q\x09(K\x06K\x09eu."
    )
    values = read_pickle(content, "the file")
    assert values["data"].tolist() == [[97, 98, 99], [100, 101, 102]]
    assert values["labels"] == [6, 9]


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_survive(dtype: str, order: Any, protocol: int) -> None:
    array = np.asarray(np.arange(12).reshape(3, 4), dtype=dtype, order=order)
    found = read_pickle(pickle.dumps({"a": array}, protocol), "the file")["a"]
    assert np.array_equal(found, array)
    assert found.dtype == array.dtype


class Runs:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "created"
    with pytest.raises(UserError, match=r"the file was refused: it asks to run (posix|nt)\.system"):
        read_pickle(pickle.dumps({"data": Runs(target)}, protocol), "the file")
    assert not target.exists()


def test_malicious_archive_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "created"
    content = pickle.dumps({"data": Runs(target)}, 2)
    with tarfile.open(tmp_path / CIFAR10.archive, "w:gz") as archive:
        for name in CIFAR10.train_files:
            member = tarfile.TarInfo(f"{CIFAR10.folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(UserError, match=r"data_batch_1 was refused: it asks to run (posix|nt)\.system"):
        cifar10(tmp_path)
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cnumpy.core.multiarray\n_reconstruct.__globals__\n.",
        b"\x80\x04\x8c\x07_codecs\x8c\x06decode\x93.",
        b"ccodecs\nencode\n.",
    ],
)
def test_other_globals_are_named(content: bytes) -> None:
    with pytest.raises(UserError, match="it asks to run"):
        read_pickle(content, "the file")


DTYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"


def array_pickle(state: bytes) -> bytes:
    return b"\x80\x02}U\x01acnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R" + state + b"s."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"c_codecs\nencode\nN}S'__defaults__'\nNs\x86b.", "does what no array"),  # changes an allowed function
        (b"cnumpy\ndtype\n}S'x'\nNsb.", "does what no array"),
        (b"c_codecs\nencode\n(S'x'\nS'zip'\ntR.", "does what no array"),
        (b"cnumpy\nndarray\n)R.", "does what no array"),
        (b"cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.", "type 'O8'"),
        (b"cnumpy\ndtype\n(S'V8'\nI0\nI1\ntR.", "type 'V8'"),
        (b"Pname\n.", "persistent"),
        (b"(I1\nI2\nl.", "a list and not a dictionary"),
        (b"}I1\nI2\ns.", "a int where a name belongs"),
        (b"}S'a'\ncnumpy\ndtype\ns.", "it holds a _StandIn"),
        (b"}r\xff\xff\xff\x7f.", "it numbers an object 2147483647"),  # would reserve gigabytes
        (b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00.", "bytearray8"),
        (b"", "pickle exhausted before seeing STOP"),
        (array_pickle(b"(K\x01K\x02\x85N\x89U\x02abtb"), "does what no array"),
        (array_pickle(b"(K\x01U\x01x\x85" + DTYPE + b"\x89U\x02abtb"), "array of shape"),
        (array_pickle(b"(K\x01K\x03\x85" + DTYPE + b"\x89U\x02abtb"), r"shape \(3,\) with 2 bytes"),
        (array_pickle(b""), "array without content"),
    ],
)
def test_odd_pickles_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=f"the file is truncated or damaged .*{reason}"):
        read_pickle(content, "the file")


def test_object_arrays_are_refused() -> None:
    with pytest.raises(UserError, match="type 'O8'"):
        read_pickle(pickle.dumps({"data": np.array([{}], dtype=object)}, 2), "the file")


def test_every_truncation_is_refused() -> None:
    whole = pickle.dumps({b"data": np.zeros((2, 3), np.uint8), b"labels": [1, 2]}, 2)
    for length in range(len(whole)):
        with pytest.raises(UserError, match="the file"):
            read_pickle(whole[:length], "the file")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [10] * 20}, "data_batch_1 is mislabelled: its labels go from 10 to 10"),
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
        read(SMALL10, tmp_path)


def test_truncated_and_incomplete_archives(tmp_path: Path) -> None:
    archive = write_archive(SMALL10, tmp_path)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz' is truncated"):
        read(SMALL10, tmp_path)
    archive.write_bytes(b"not gzip")
    with pytest.raises(UserError, match="truncated or damaged"):
        read(SMALL10, tmp_path)
    with tarfile.open(archive, "w:gz") as empty:
        empty.addfile(tarfile.TarInfo("other"))
    with pytest.raises(UserError, match="no usable cifar-10-batches-py/data_batch_1"):
        read(SMALL10, tmp_path)


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
        read(SMALL10, tmp_path)


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
