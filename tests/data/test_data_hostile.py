"""Pipes, devices, names and archives that are made to hang a reader or to fill its memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from image_files import STACK, Y, pa, pixels, png, pq, write_parquet

from archgrad.data import cifar10, load, npz, parquet
from archgrad.data.catalog import check_data
from archgrad.errors import UserError


@pytest.mark.parametrize("source", ["npz", "parquet", "folder"])
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("pipe", "is a pipe|there is no folder"),
        ("/dev/zero", "is a device|there is no folder"),
        ("/dev/stdin", "is a|there is no"),
        ("sparse", "truncated|there is no folder"),
        ("n" * 300, "File name too long"),
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


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def array_header(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def test_archives_that_unpack_to_gigabytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.npz._BOMB_BYTES", 1 << 20)
    bomb = array_header((1 << 11, 32, 32)) + bytes(1 << 21)
    with pytest.raises(UserError, match=r"'x.npy' of .* unpacks from \d+ to 2097152 bytes, which images never do"):
        npz(zipped(tmp_path / "a.npz", {"x.npy": bomb}))
    claimed = b"\x93NUMPY\x02\x00" + (1 << 31).to_bytes(4, "little") + bytes(1 << 20)
    with pytest.raises(UserError, match="is truncated or is no NumPy archive"):
        npz(zipped(tmp_path / "b.npz", {"x.npy": claimed}))
    many = {f"{number}-{'n' * 60}.npy": b"" for number in range(1000)}
    with pytest.raises(UserError, match="no array called x_train") as error:
        npz(zipped(tmp_path / "c.npz", many))
    assert len(str(error.value)) < 900


def test_parquet_files_with_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr("archgrad.data.sources.parquet._MOST_ROWS", 11)
    with pytest.raises(UserError, match=r"a\.parquet' claims to have 12 rows; at most 11 are read"):
        parquet(path)


def test_parquet_files_that_unpack_to_gigabytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.parquet._BOMB_BYTES", 1 << 20)
    path = tmp_path / "a.parquet"
    table = pa.table({"image": [bytes(1 << 20), bytes([1]) * (1 << 20)], "label": [0, 1]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    with pytest.raises(UserError, match=r"unpack from \d+ to 2\d{6} bytes, which encoded images never do"):
        parquet(path)


def test_few_rows_are_read_at_once_if_each_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.parquet._BYTES_AT_ONCE", 1)
    assert len(parquet(write_parquet(tmp_path / "a.parquet"))) == 12


def test_absurd_metadata_of_parquet_files(tmp_path: Path) -> None:
    nested = "[" * 20_000
    columns = {f"column-{number}": [0, 1] for number in range(300)}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns).replace_schema_metadata({"huggingface": nested}), path)
    with pytest.raises(UserError, match="has no label column; it has column-0, ") as error:
        parquet(path)
    assert len(str(error.value)) < 500
    images = {"image": [png(pixels(0))] * 4, "label": [0, 1] * 2}
    pq.write_table(pa.table(images).replace_schema_metadata({"huggingface": nested}), path)
    assert parquet(path).classes == ("0", "1")
    names = [f"class {number}" for number in range(100_000)]
    info = json.dumps({"info": {"features": {"label": {"names": names}}}})
    pq.write_table(pa.table(images).replace_schema_metadata({"huggingface": info}), path)
    with pytest.raises(UserError, match="no images of 99998 of its 100000 classes") as error:
        parquet(path)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("kind", "size", "sentence"),
    [
        (tarfile.REGTYPE, 3 << 20, "unpacks to more than 1 MiB"),
        (tarfile.XHDTYPE, 3 << 20, "unpacks to more than 1 MiB"),
        (tarfile.SYMTYPE, 0, "no usable cifar-10-batches-py/data_batch_1"),
        (tarfile.FIFOTYPE, 0, "no usable cifar-10-batches-py/data_batch_1"),
    ],
)
def test_cifar_archives_with_wrong_members(
    kind: bytes, size: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archgrad.data.sources.cifar._MOST_BYTES", 1 << 20)
    member = tarfile.TarInfo(f"{cifar10.folder}/data_batch_1")
    member.type, member.size, member.linkname = kind, size, "/etc/passwd"
    with gzip.open(tmp_path / cifar10.archive, "wb", compresslevel=1) as stream:
        stream.write(member.tobuf() + bytes(size) + bytes(1024))
    with pytest.raises(UserError, match=sentence):
        cifar10(tmp_path)


def test_a_data_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(UserError, match=r"the data folder .* cannot be read \(Permission denied\)"):
        cifar10(tmp_path)
