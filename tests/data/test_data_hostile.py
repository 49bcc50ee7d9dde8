"""Pipes, devices, names and archives that are made to hang a reader or to fill its memory."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from image_files import STACK, Y, pa, pixels, png, pq

from archgrad.data import cifar10, load, npz, parquet
from archgrad.data.catalog import check_data
from archgrad.errors import UserError


@pytest.mark.parametrize("source", ["npz", "parquet", "folder"])
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("pipe", "is a pipe|there is no folder"),
        ("/dev/zero", "is a device|there is no folder"),
        ("sparse", "truncated|there is no folder"),
        ("n" * 5000, "File name too long"),
        ("~nouser-of-this-name/x", "home directory"),
        ("loop", "symbolic links"),
        ("null\0byte", "null"),
    ],
)
def test_paths_that_are_no_data(
    source: str, path: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match=sentence) as error:
        load(f"{source}:{path}")
    assert len(str(error.value)) < 400


def test_names_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a-\udcff.npz", x=STACK, y=Y)
    with pytest.raises(UserError, match=r"a-\\udcff\.npz' has bytes that are no text; rename it"):
        check_data(f"npz:{tmp_path}/a-\udcff.npz")


def test_an_archive_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.npz._MOST_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1 << 11, 32, 32), np.uint8), y=np.arange(1 << 11) % 2)
    with pytest.raises(UserError, match=r"the array 'x' of .*a\.npz' takes 2 MiB; the most is 1 MiB"):
        npz(tmp_path / "a.npz")


def test_absurd_metadata_of_parquet_files(tmp_path: Path) -> None:
    path, images = tmp_path / "a.parquet", {"image": [png(pixels(0))] * 4, "label": [0, 1] * 2}
    pq.write_table(pa.table(images).replace_schema_metadata({"huggingface": "[" * 20_000}), path)
    assert parquet(path).classes == ("0", "1")
    columns = {f"column-{number}": [0, 1] for number in range(300)}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(UserError, match="has no label column; it has column-0, ") as error:
        parquet(path)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE])
def test_cifar_archives_with_wrong_members(kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.cifar._MOST_BYTES", 1 << 20)
    member = tarfile.TarInfo(f"{cifar10.folder}/data_batch_1")
    member.type, member.size, member.linkname = kind, 3 << 20 if kind == tarfile.REGTYPE else 0, "/etc/passwd"
    with gzip.open(tmp_path / cifar10.archive, "wb", compresslevel=1) as stream:
        stream.write(member.tobuf() + bytes(member.size) + bytes(1024))
    with pytest.raises(UserError, match="no usable cifar-10-batches-py/data_batch_1"):
        cifar10(tmp_path)


def test_a_data_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(UserError, match=r"the data folder .* cannot be read \(Permission denied\)"):
        cifar10(tmp_path)
