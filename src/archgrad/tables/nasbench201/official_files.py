"""The official files of NAS-Bench-201 and of NATS-Bench's topology space, read without running what is in them.

NAS-Bench-201 is one file that PyTorch saved, in its old or its new format. NATS-Bench is one pickle packed by bzip2, or
a folder with ``meta.pickle.pbz2`` and one such pickle per cell. All hold the same data: the names of the cells, and for
each cell and length of training a dict with one entry per data set and seed.
"""

from __future__ import annotations

import bz2
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from archgrad.errors import UserError
from archgrad.files import existing_path, open_regular, shown_path
from archgrad.pickle_stream import PickleStream
from archgrad.tables.base import Progress
from archgrad.tables.nasbench201.cells import CELLS, codes_by_name

__all__ = ["is_official", "read_cells"]

_META, _CELL = "meta.pickle.pbz2", "{:06d}.pickle.pbz2"
_ZIP, _BZIP2, _PICKLE = b"PK\x03\x04", b"BZh", b"\x80"
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""The number with which PyTorch's old format begins."""
_LARGEST, _LARGEST_UNPACKED, _LARGEST_CELL = 20 * 10**9, 40 * 10**9, 8 * 10**6
"""Bytes: the published files have at most 5 GB, and a cell unpacks to about half a megabyte."""
_FILES = (
    "NAS-Bench-201-v1_1-096897.pth, NATS-tss-v1_0-3ffb9.pickle.pbz2 or the unpacked folder NATS-tss-v1_0-3ffb9-simple"
)


def is_official(path: Path) -> bool:
    """Tell whether a path looks like an official file or folder."""
    if path.is_dir():
        return (path / _META).exists()
    with path.open("rb") as file:
        return file.read(4).startswith((_ZIP, _BZIP2, _PICKLE))


def read_cells(source: Path, wanted: frozenset[str], progress: Progress | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the name of every cell and its trainings by their length, in the order of the benchmark.

    ``wanted`` names the accuracies to keep, such as ``x-test@199``. A folder is read one cell at a time.
    """
    source = existing_path(source, "benchmark file")
    return (_read_folder if source.is_dir() else _read_file)(source, wanted, progress or (lambda done, total: None))


def _read_file(path: Path, wanted: frozenset[str], progress: Progress) -> Iterator[tuple[str, Any]]:
    with ExitStack() as opened:
        file = opened.enter_context(open_regular(path, "benchmark file", _LARGEST))
        size = path.stat().st_size
        unpacked = _unpacked(file, path, opened)
        stream = PickleStream(
            unpacked, str(path), wanted, _LARGEST_UNPACKED, lambda: progress(min(file.tell(), size), size)
        )
        if unpacked is file:
            _skip_torch_header(stream, path)
        content = stream.load()
    progress(size, size)
    names = _names(path, content)
    cells = content.get("arch2infos")
    for index, name in enumerate(names):
        if not isinstance(cells, dict) or index not in cells:
            raise UserError(f"{path} lacks the results of cell {index}, {name}; it needs all {CELLS}: get it again.")
        yield name, cells[index]


def _unpacked(file: IO[bytes], path: Path, opened: ExitStack) -> IO[bytes]:
    """Return the stream of pickles in a file; a file of PyTorch's old format is one itself."""
    start = file.read(4)
    file.seek(0)
    if start.startswith(_BZIP2):
        return opened.enter_context(bz2.BZ2File(file))
    if start.startswith(_PICKLE):
        return file
    if not start.startswith(_ZIP):
        raise UserError(f"{shown_path(path)} is no official file of NAS-Bench-201 or NATS-Bench; give {_FILES}.")
    try:
        archive = opened.enter_context(zipfile.ZipFile(file))
        return opened.enter_context(
            archive.open(next(name for name in archive.namelist() if name.endswith("data.pkl")))
        )
    except StopIteration:
        raise UserError(f"{shown_path(path)} is a zip archive, but not one of PyTorch; give {_FILES}.") from None
    except Exception as problem:  # a damaged archive fails with many kinds of errors
        raise UserError(f"{shown_path(path)} is a damaged zip archive ({problem}); get the file again.") from problem


def _skip_torch_header(stream: PickleStream, path: Path) -> None:
    """Read the three values before the data: a magic number, a version and the sizes of numbers."""
    if stream.load() != _TORCH_MAGIC:
        raise UserError(f"{shown_path(path)} is a pickle, but not a file that PyTorch saved; give {_FILES}.")
    stream.load()
    stream.load()


def _read_folder(folder: Path, wanted: frozenset[str], progress: Progress) -> Iterator[tuple[str, Any]]:
    if not (folder / _META).exists():
        raise UserError(f"the folder {shown_path(folder)} has no {_META}; give {_FILES}.")
    names = _names(folder / _META, _read_packed(folder / _META, wanted))
    missing = [index for index in range(len(names)) if not (folder / _CELL.format(index)).exists()]
    if missing:
        raise UserError(
            f"the folder {shown_path(folder)} lacks {len(missing)} of {CELLS} cells, the first of them "
            f"{_CELL.format(missing[0])}; unpack the archive again."
        )
    sizes = [(folder / _CELL.format(index)).stat().st_size for index in range(len(names))]
    done, total = 0, sum(sizes)
    for index, (name, size) in enumerate(zip(names, sizes, strict=True)):
        yield name, _read_packed(folder / _CELL.format(index), wanted)
        done += size
        progress(done, total)


def _read_packed(path: Path, wanted: frozenset[str]) -> Any:
    with open_regular(path, "benchmark file", _LARGEST_CELL) as file, bz2.BZ2File(file) as unpacked:
        return PickleStream(unpacked, str(path), wanted, _LARGEST_CELL).load()


def _names(path: Path, content: object) -> list[str]:
    """Return the names of all cells in the order of the benchmark."""
    names = content.get("meta_archs") if isinstance(content, dict) else None
    if not isinstance(names, list):
        raise UserError(f"{path} has no list 'meta_archs' of cells; give {_FILES}.")
    for name in names:
        if not isinstance(name, str) or name not in codes_by_name():
            cell = name[:60] if isinstance(name, str) else type(name).__name__
            raise UserError(
                f"{path} has the cell {cell!r}, which is not in NAS-Bench-201; give a file of the topology space "
                f"(tss), not of the size space (sss)."
            )
    if len(names) != CELLS or len(set(names)) != CELLS:
        raise UserError(f"{path} names {len(set(names))} cells in {len(names)} places; it needs all {CELLS} once.")
    return names
