"""Write the CSV table from the official folder of NATS-Bench's topology space, which is NAS-Bench-201.

The folder has ``meta.pickle.pbz2`` with the names of the cells, and one pickle packed by bzip2 per cell: for each
length of training a dict with one entry per data set and seed. Nothing in these files is run.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import IO, Any, NamedTuple

from archgrad.errors import UserError
from archgrad.system.files import open_regular, shown_path
from archgrad.system.restricted_pickle import damaged, read_plain
from archgrad.tables.base import Progress
from archgrad.tables.nasbench201.cells import CELLS, codes_by_name

__all__ = ["write_cells"]

_META, _CELL = "meta.pickle.pbz2", "{:06d}.pickle.pbz2"
_LARGEST = 8 * 10**6
"""Bytes: a cell unpacks to about half a megabyte, and the names of all cells to less than two."""
_FOLDER = "give the unpacked folder NATS-tss-v1_0-3ffb9-simple of the topology space (tss)"


class _Column(NamedTuple):
    """Which accuracy a column holds: trained on what, measured on which images, after how many epochs."""

    dataset: str
    images: str
    epochs: int = 200

    @property
    def is_optional(self) -> bool:
        """Whether a cell may lack it: all but the accuracies on test images after 200 epochs."""
        return self.epochs != 200 or self.images == "x-valid"


_COLUMNS = {
    "cifar10_test": _Column("cifar10", "ori-test"),
    "cifar100_test": _Column("cifar100", "x-test"),
    "imagenet16_test": _Column("ImageNet16-120", "x-test"),
    "cifar10_valid": _Column("cifar10-valid", "x-valid"),
    "cifar100_valid": _Column("cifar100", "x-valid"),
    "imagenet16_valid": _Column("ImageNet16-120", "x-valid"),
    "cifar10_valid_12ep": _Column("cifar10-valid", "x-valid", 12),
    "cifar100_valid_12ep": _Column("cifar100", "x-valid", 12),
    "imagenet16_valid_12ep": _Column("ImageNet16-120", "x-valid", 12),
    "cifar10_test_12ep": _Column("cifar10", "ori-test", 12),
    "cifar100_test_12ep": _Column("cifar100", "x-test", 12),
    "imagenet16_test_12ep": _Column("ImageNet16-120", "x-test", 12),
}


def write_cells(source: Path, file: IO[bytes], progress: Progress | None) -> dict[str, int]:
    """Write the rows of all cells as CSV; return how many cells each column has.

    Accuracies are in per cent after the last epoch: the mean over all seeds with which a cell was trained on a data
    set, rounded to four digits.
    """
    counts = dict.fromkeys(_COLUMNS, 0)
    file.write(f"{','.join(('index', 'arch', *_COLUMNS))}\n".encode())
    for index, (name, cell) in enumerate(_read_cells(source, progress)):
        where = f"{shown_path(source)}, cell {index} ({name})"
        means = {column: _mean(where, name, cell, wanted) for column, wanted in _COLUMNS.items()}
        counts = {column: counts[column] + (mean is not None) for column, mean in means.items()}
        values = ("" if mean is None else str(mean) for mean in means.values())
        file.write(f"{','.join((str(index), name, *values))}\n".encode())
    return counts


def _read_cells(folder: Path, progress: Progress | None) -> Iterator[tuple[str, Any]]:
    """Yield the name of every cell and its trainings by their length, in the order of the benchmark."""
    if not (folder / _META).is_file():
        raise UserError(f"{shown_path(folder)} is no folder with the file {_META}; {_FOLDER}.")
    names = _names(folder / _META)
    paths = [folder / _CELL.format(index) for index in range(CELLS)]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise UserError(
            f"the folder {shown_path(folder)} lacks {len(missing)} of {CELLS} cells, the first of them {missing[0]}; "
            f"unpack the archive again."
        )
    done, total = 0, sum(path.stat().st_size for path in paths)
    for name, path in zip(names, paths, strict=True):
        yield name, _read_packed(path)
        done += path.stat().st_size
        if progress is not None:
            progress(done, total)


def _names(path: Path) -> list[str]:
    """Return the names of all cells in the order of the benchmark."""
    names: list[str] = _entry(str(path), _read_packed(path), "meta_archs", list)
    foreign = [name for name in names if not isinstance(name, str) or name not in codes_by_name()]
    if foreign or len(names) != CELLS or len(set(names)) != CELLS:
        raise UserError(
            f"{path} names {len(names)} cells, {len(foreign)} of them not in NAS-Bench-201; it needs all {CELLS} once: "
            f"{_FOLDER}."
        )
    return names


def _read_packed(path: Path) -> Any:
    with open_regular(path, "benchmark file", _LARGEST) as file:
        try:
            content = bz2.BZ2File(file).read(_LARGEST + 1)
        except (OSError, EOFError) as problem:
            raise damaged(str(path), problem) from problem
    if len(content) > _LARGEST:
        raise UserError(f"{path} unpacks to more than {_LARGEST / 1e6:.0f} MB, which no cell does; get the file again.")
    return read_plain(content, str(path))


def _mean(where: str, name: str, cell: object, column: _Column) -> float | None:
    """Return the mean over seeds; None where the file has no such training and need not have it."""
    results = _entry(where, cell, str(column.epochs), dict)
    if results.get("arch_str") != name:
        raise UserError(f"{where}: its results are those of another cell; get the file again.")
    trials, seeds = _entry(where, results, "all_results", dict), _entry(where, results, "dataset_seed", dict)
    if not seeds.get(column.dataset) and column.is_optional:
        return None
    accuracies = []
    key = f"{column.images}@{column.epochs - 1}"  # after the last epoch
    for seed in _entry(where, seeds, column.dataset, list):
        trial = _entry(where, trials, (column.dataset, seed), dict)
        accuracies.append(_entry(where, _entry(where, trial, "eval_acc1es", dict), key, (int, float)))
    if not accuracies or not all(0 <= accuracy <= 100 for accuracy in accuracies):
        raise UserError(f"{where} has accuracies {accuracies} on {column.dataset}, not from 0 to 100; {_FOLDER}.")
    return round(fsum(accuracies) / len(accuracies), 4)


def _entry(where: str, content: object, key: object, kind: Any) -> Any:
    """Return an entry of a dict; raise a UserError that names what lacks it."""
    try:
        found = content.get(key) if isinstance(content, dict) else None
    except TypeError:  # the file has a list in the place of a number
        found = None
    if not isinstance(found, kind):
        raise UserError(f"{where} has no valid entry {key!r}; {_FOLDER}.")
    return found
