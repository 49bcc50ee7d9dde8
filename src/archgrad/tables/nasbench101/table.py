"""The results of cells in NAS-Bench-101, and their regret in the NAS-Bench-1Shot1 spaces.

The table comes from a file that the caller names (a TFRecord file or its index), else from
``$ARCHGRAD_DATA/nasbench101/nasbench_full.tfrecord``, else from ``nasbench_only108.tfrecord`` beside it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from archgrad.errors import UserError, check_one_of
from archgrad.fields import checked
from archgrad.spaces import Genotype, NASBench1Shot1
from archgrad.spaces.nasbench101 import Module, genotype_of, module_of
from archgrad.tables.base import Progress
from archgrad.tables.nasbench101.index import Cell, Index, Measure, open_index
from archgrad.tables.nasbench101.index_cache import cached_index
from archgrad.tables.nasbench101.metrics import Run
from archgrad.warn_once import warn_once

__all__ = [
    "EPOCHS",
    "INDEX_SUFFIX",
    "MEASURES",
    "PUBLISHED_OPTIMA",
    "CellRecord",
    "CellTable",
    "Optimum",
    "file_is_available",
    "find_cells",
    "open_cells",
    "spaces_containing",
]

EPOCHS = 108
"""The default number of training epochs in NAS-Bench-101."""
MEASURES: tuple[Measure, ...] = ("valid", "test")
INDEX_SUFFIX = ".sqlite"

_IN_DATA_FOLDER = ("nasbench_full.tfrecord", "nasbench_only108.tfrecord")
_PUBLISHED_CELLS = 423_624

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Optimum:
    """The lowest errors in per cent of all single runs in a space."""

    test_error: float
    valid_error: float

    def regret(self, record: CellRecord) -> dict[Measure, float]:
        """Return the mean errors of a cell minus the lowest of single runs, in per cent."""
        return {"valid": 100 - record.valid - self.valid_error, "test": 100 - record.test - self.test_error}


PUBLISHED_OPTIMA = {
    1: Optimum(5.449, 4.928),
    2: Optimum(5.759, 5.158),
    3: Optimum(5.339, 4.848),
}
"""The optima of the NAS-Bench-1Shot1 spaces after 108 epochs, from the authors' code, to three decimals."""


@dataclass(frozen=True)
class CellRecord:
    """The results of a cell after ``epochs`` epochs of training; accuracies are in per cent."""

    hash: str
    module: Module
    parameters: int
    epochs: int
    runs: tuple[Run, ...]
    source: str

    def accuracies(self, measure: str) -> tuple[float, ...]:
        """Return the final accuracies of the runs on the images of ``train``, ``valid`` or ``test``."""
        check_one_of("measure", measure, ("train", *MEASURES))
        return tuple(100 * float(getattr(run.end, measure)) for run in self.runs)

    def spread(self, measure: str) -> float:
        """Return the standard deviation over the runs, 0 for a single one."""
        return stdev(self.accuracies(measure)) if len(self.runs) > 1 else 0.0

    @property
    def train(self) -> float:
        """Mean accuracy on the training images."""
        return fmean(self.accuracies("train"))

    @property
    def valid(self) -> float:
        """Mean accuracy on the validation images."""
        return fmean(self.accuracies("valid"))

    @property
    def test(self) -> float:
        """Mean accuracy on the test images."""
        return fmean(self.accuracies("test"))

    @property
    def seconds(self) -> float:
        """Mean time of training."""
        return fmean(run.end.seconds for run in self.runs)


@dataclass(frozen=True)
class CellTable:
    """The cells of a NAS-Bench-101 file; look them up by module or by NAS-Bench-1Shot1 genotype."""

    index: Index

    def __len__(self) -> int:
        return self.index.cells

    @property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of epochs for which its cells were trained."""
        return self.index.epochs

    @property
    def source(self) -> str:
        """The file that it was read from."""
        return self.index.source

    @checked
    def find(self, cell: Module | Genotype, epochs: int = EPOCHS) -> CellRecord | None:
        """Return the record of a cell, or None if it is not in the table."""
        found = self._find(_module(cell), epochs)
        return None if found is None else self._record(*found, epochs)

    @checked
    def query(self, cell: Module | Genotype, epochs: int = EPOCHS) -> CellRecord:
        """Return the record of a cell; raise a UserError if it is not in the table."""
        return self._record(*self._query(_module(cell), epochs), epochs)

    @checked
    def best(self, measure: Measure = "test", epochs: int = EPOCHS) -> CellRecord:
        """Return the cell with the highest mean accuracy; the first in the file wins a tie."""
        self._check(measure, epochs)
        return self.query(self.index.best(measure, epochs).module, epochs)

    @checked
    def rank(self, cell: Module | Genotype, measure: Measure = "test", epochs: int = EPOCHS) -> int:
        """Return the cell's rank by mean accuracy: 1 is the best; equal accuracies share the better rank."""
        self._check(measure, epochs)
        found, _ = self._query(_module(cell), epochs)
        return 1 + self.index.better(found, measure, epochs)

    def check_epochs(self, epochs: int) -> None:
        """Raise a UserError unless some cells were trained for this many epochs."""
        if epochs not in self.epochs:
            listed = ", ".join(map(str, self.epochs))
            raise UserError(f"{self.source} has no cells trained for {epochs} epochs; choose from: {listed}.")

    def _check(self, measure: Measure, epochs: int) -> None:
        check_one_of("measure", measure, MEASURES)
        self.check_epochs(epochs)

    def _find(self, module: Module, epochs: int) -> tuple[Cell, tuple[Run, ...]] | None:
        self.check_epochs(epochs)
        cell = self.index.cell(module.hash)
        runs = () if cell is None else self.index.runs(cell, epochs)
        return (cell, runs) if cell is not None and runs else None

    def _query(self, module: Module, epochs: int) -> tuple[Cell, tuple[Run, ...]]:
        found = self._find(module, epochs)
        if found is None:
            module.check()
            raise UserError(
                f"the cell {module.hash} is not in {self.source} with {epochs} epochs of training, which has "
                f"{len(self)} cells; the benchmark's own file nasbench_only108.tfrecord has {_PUBLISHED_CELLS}."
            )
        return found

    def _record(self, cell: Cell, runs: tuple[Run, ...], epochs: int) -> CellRecord:
        return CellRecord(cell.hash, cell.module, cell.parameters, epochs, runs, self.source)


@checked
def find_cells(path: str | Path | None = None, progress: Progress | None = None) -> CellTable | None:
    """Return the table at ``path``, else the one on this machine, else None. A ``path`` without a table is an error."""
    if path is not None:
        path = Path(path)
        is_index = path.suffix.lower() == INDEX_SUFFIX
        return _complete(path, CellTable(open_index(path) if is_index else cached_index(path, progress)))
    own = next(_published_files(), None)
    return None if own is None else _complete(own, CellTable(cached_index(own, progress)))


def file_is_available() -> bool:
    """Tell whether a published file is in ``$ARCHGRAD_DATA``, without reading it."""
    return next(_published_files(), None) is not None


def _published_files() -> Iterator[Path]:
    data = os.environ.get("ARCHGRAD_DATA")
    paths = (Path(data, "nasbench101", name) for name in _IN_DATA_FOLDER) if data else ()
    return (path for path in paths if path.exists())


@checked
def open_cells(path: str | Path | None = None, progress: Progress | None = None) -> CellTable:
    """Return the table of :func:`find_cells`; without one, raise a UserError that says how to get it."""
    table = find_cells(path, progress)
    if table is None:
        raise UserError(
            "no NAS-Bench-101 file was found; name a TFRecord file with --table FILE, or put one at "
            f"{' or '.join(f'$ARCHGRAD_DATA/nasbench101/{name}' for name in _IN_DATA_FOLDER)}."
        )
    return table


def spaces_containing(cell: Module | Genotype) -> tuple[int, ...]:
    """Return the numbers of the NAS-Bench-1Shot1 spaces that contain a cell; a genotype is only in its own."""
    return tuple(number for number in PUBLISHED_OPTIMA if _lies_in(number, cell))


def _lies_in(number: int, cell: Module | Genotype) -> bool:
    space = NASBench1Shot1(number=number)
    try:
        if isinstance(cell, Genotype):
            space.check(cell)
        else:
            genotype_of(space, cell)
    except UserError:
        return False
    return True


def _module(cell: Module | Genotype) -> Module:
    return cell if isinstance(cell, Module) else module_of(cell)


def _complete(path: Path, table: CellTable) -> CellTable:
    """Warn if a published file lacks cells: a cut between two records breaks no checksum."""
    is_published = {path.name, Path(table.source).name} & set(_IN_DATA_FOLDER)
    if is_published and len(table) != _PUBLISHED_CELLS:
        warn_once(
            _logger,
            "%s has %d cells, but was published with %d; fetch it again.",
            table.source,
            len(table),
            _PUBLISHED_CELLS,
        )
    return table
