"""The official folder of NATS-Bench's topology space, which is NAS-Bench-201, read without running what is in it.

It has ``meta.pickle.pbz2`` with the names of the cells, and one pickle packed by bzip2 per cell: for each length of
training a dict with one entry per data set and seed.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.system.files import existing_path, open_regular, shown_path
from archgrad.system.restricted_pickle import damaged, read_plain
from archgrad.tables.base import Progress
from archgrad.tables.nasbench201.cells import CELLS, codes_by_name

__all__ = ["is_official", "read_cells"]

_META, _CELL = "meta.pickle.pbz2", "{:06d}.pickle.pbz2"
_SINGLE_FILES = (b"PK\x03\x04", b"BZh", b"\x80")
"""With what the files begin that hold all cells: those of PyTorch's new format, of NATS-Bench, of PyTorch's old one."""
_LARGEST = 8 * 10**6
"""Bytes: a cell unpacks to about half a megabyte, and the names of all cells to less than two."""
_FOLDER = "the unpacked folder NATS-tss-v1_0-3ffb9-simple"


def is_official(path: Path) -> bool:
    """Tell whether a path looks like an official file or folder."""
    if path.is_dir():
        return (path / _META).exists()
    with path.open("rb") as file:
        return file.read(4).startswith(_SINGLE_FILES)


def read_cells(source: Path, progress: Progress | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the name of every cell and its trainings by their length, in the order of the benchmark."""
    folder = existing_path(source, "benchmark file")
    if not folder.is_dir():
        open_regular(folder, "benchmark file").close()
        raise UserError(
            f"{shown_path(folder)} is a file, and a file with all cells takes too much memory to read; give {_FOLDER}."
        )
    if not (folder / _META).exists():
        raise UserError(f"the folder {shown_path(folder)} has no {_META}; give {_FOLDER}.")
    names = _names(folder / _META, _read_packed(folder / _META))
    missing = [index for index in range(len(names)) if not (folder / _CELL.format(index)).exists()]
    if missing:
        raise UserError(
            f"the folder {shown_path(folder)} lacks {len(missing)} of {CELLS} cells, the first of them "
            f"{_CELL.format(missing[0])}; unpack the archive again."
        )
    sizes = [(folder / _CELL.format(index)).stat().st_size for index in range(len(names))]
    done, total = 0, sum(sizes)
    for index, (name, size) in enumerate(zip(names, sizes, strict=True)):
        yield name, _read_packed(folder / _CELL.format(index))
        done += size
        if progress is not None:
            progress(done, total)


def _read_packed(path: Path) -> Any:
    with open_regular(path, "benchmark file", _LARGEST) as file:
        try:
            content = bz2.BZ2File(file).read(_LARGEST + 1)
        except (OSError, EOFError) as problem:
            raise damaged(str(path), problem) from problem
    if len(content) > _LARGEST:
        raise UserError(f"{path} unpacks to more than {_LARGEST / 1e6:.0f} MB, which no cell does; get the file again.")
    return read_plain(content, str(path))


def _names(path: Path, content: object) -> list[str]:
    """Return the names of all cells in the order of the benchmark."""
    names = content.get("meta_archs") if isinstance(content, dict) else None
    if not isinstance(names, list):
        raise UserError(f"{path} has no list 'meta_archs' of cells; give {_FOLDER}.")
    for name in names:
        if not isinstance(name, str) or name not in codes_by_name():
            cell = name[:60] if isinstance(name, str) else type(name).__name__
            raise UserError(
                f"{path} has the cell {cell!r}, which is not in NAS-Bench-201; give the folder of the topology "
                f"space (tss), not of the size space (sss)."
            )
    if len(names) != CELLS or len(set(names)) != CELLS:
        raise UserError(f"{path} names {len(set(names))} cells in {len(names)} places; it needs all {CELLS} once.")
    return names
