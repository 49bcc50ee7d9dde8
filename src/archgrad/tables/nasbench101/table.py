"""The results of cells in NAS-Bench-101, and their regret in the NAS-Bench-1Shot1 spaces.

The table is the parquet file that ``archgrad convert`` writes: the one that the caller names, else
``$ARCHGRAD_DATA/nasbench101/nasbench101.parquet``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from statistics import fmean, stdev
from typing import Any, Literal

from archgrad.errors import UserError
from archgrad.parts.fields import check_value, checked
from archgrad.spaces import Genotype, NASBench1Shot1
from archgrad.spaces.nasbench101 import Module, genotype_of, module_of
from archgrad.system.data_files import data_files, load_once
from archgrad.tables.nasbench101.official_file import TrainingRun, module_from
from archgrad.tables.nasbench101.parquet_file import (
    PUBLISHED_CELLS,
    PUBLISHED_FILES,
    foreign,
    read_columns,
    read_rows_at,
)

__all__ = [
    "EPOCHS",
    "MEASURES",
    "PUBLISHED_OPTIMA",
    "TABLE_FILE",
    "CellRecord",
    "CellTable",
    "Optimum",
    "find_cells",
    "open_cells",
    "spaces_containing",
]

Measure = Literal["valid", "test"]

EPOCHS = 108
"""The default number of training epochs in NAS-Bench-101."""
MEASURES: tuple[Measure, ...] = ("valid", "test")
TABLE_FILE = "nasbench101.parquet"


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
    runs: tuple[TrainingRun, ...]
    source: str

    def accuracies(self, measure: str) -> tuple[float, ...]:
        """Return the final accuracies of the runs on the images of ``train``, ``valid`` or ``test``."""
        check_value("measure", measure, Literal["train", "valid", "test"])
        return tuple(100 * float(getattr(run, measure)) for run in self.runs)

    def spread(self, measure: str) -> float:
        """Return the standard deviation over the runs, 0 for a single one."""
        return stdev(self.accuracies(measure)) if len(self.runs) > 1 else 0.0

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
        return fmean(run.seconds for run in self.runs)


@dataclass(frozen=True, eq=False)
class CellTable:
    """The cells of a converted file; look them up by module or by NAS-Bench-1Shot1 genotype.

    ``columns`` has the hash, the epochs and the accuracies of every run; the rest stays in the file until it is asked.
    """

    path: Path
    columns: Any

    @cached_property
    def _means(self) -> Any:
        """The mean accuracies of each cell after each number of epochs, in the order of the file."""
        groups = self.columns.group_by(["hash", "epochs"], use_threads=False)
        return groups.aggregate([(measure, "mean") for measure in MEASURES])

    def __len__(self) -> int:
        return len(self.columns["hash"].unique())

    @cached_property
    def trained(self) -> dict[int, int]:
        """How many cells were trained for each number of epochs, sorted."""
        counts = self._means["epochs"].value_counts().to_pylist()
        return dict(sorted((count["values"], count["counts"]) for count in counts))

    @cached_property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of epochs for which its cells were trained."""
        return tuple(sorted(self.columns["epochs"].unique().to_pylist()))

    @property
    def source(self) -> str:
        """The file that it is read from."""
        return str(self.path)

    @checked
    def find(self, cell: Module | Genotype, epochs: int = EPOCHS) -> CellRecord | None:
        """Return the record of a cell, or None if it is not in the table."""
        self.check_epochs(epochs)
        return self._record(_module(cell).hash, epochs)

    @checked
    def query(self, cell: Module | Genotype, epochs: int = EPOCHS) -> CellRecord:
        """Return the record of a cell; raise a UserError if it is not in the table."""
        found = self.find(cell, epochs)
        if found is None:
            module = _module(cell)
            module.check()
            raise UserError(
                f"the cell {module.hash} is not in {self.source} with {epochs} epochs of training, which has "
                f"{len(self)} cells; the benchmark's own file {PUBLISHED_FILES[-1]} has {PUBLISHED_CELLS}."
            )
        return found

    @checked
    def best(self, measure: Measure = "test", epochs: int = EPOCHS) -> CellRecord:
        """Return the cell with the highest mean accuracy; the first in the file wins a tie."""
        cells = self._cells(measure, epochs)
        means = cells[f"{measure}_mean"].to_numpy()
        found = self._record(cells["hash"][int(means.argmax())].as_py().hex(), epochs)
        if found is None:
            raise foreign(self.path, "it was changed while it was read")
        return found

    @checked
    def rank(self, cell: Module | Genotype, measure: Measure = "test", epochs: int = EPOCHS) -> int:
        """Return the cell's rank by mean accuracy: 1 is the best; equal accuracies share the better rank."""
        cells, own = self._cells(measure, epochs), bytes.fromhex(self.query(cell, epochs).hash)
        means = cells[f"{measure}_mean"].to_numpy()
        return 1 + int((means > means[cells["hash"].index(own).as_py()]).sum())

    def check_epochs(self, epochs: int) -> None:
        """Raise a UserError unless some cells were trained for this many epochs."""
        if epochs not in self.epochs:
            listed = ", ".join(map(str, self.epochs))
            raise UserError(f"{self.source} has no cells trained for {epochs} epochs; choose from: {listed}.")

    def _cells(self, measure: Measure, epochs: int) -> Any:
        import pyarrow.compute as pc

        check_value("measure", measure, Measure)
        self.check_epochs(epochs)
        return self._means.filter(pc.equal(self._means["epochs"], epochs))

    def _record(self, hash_: str, epochs: int) -> CellRecord | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        hashes = self.columns["hash"]
        same = pc.equal(hashes, pa.scalar(bytes.fromhex(hash_), hashes.type))
        own = pc.and_(same, pc.equal(self.columns["epochs"], epochs))
        rows = read_rows_at(self.path, pc.indices_nonzero(own).to_pylist())
        if not rows:
            return None
        runs = tuple(TrainingRun(**row) for row in rows)
        if not all(0 <= one <= 1 for run in runs for one in (run.train, run.valid, run.test)):
            raise foreign(self.path, f"the runs of the cell {hash_} have accuracies that are not from 0 to 1")
        try:
            module = module_from(runs[0].matrix, runs[0].operations)
        except ValueError as problem:
            raise foreign(self.path, str(problem).rstrip(".")) from None
        return CellRecord(hash_, module, runs[0].parameters, epochs, runs, self.source)


@checked
def find_cells(path: str | Path | None = None) -> CellTable | None:
    """Return the table at ``path``, else the one on this machine, else None. A ``path`` without a table is an error."""
    if path is None:
        own = data_files("nasbench101", TABLE_FILE)
        return find_cells(own[0]) if own else None
    if Path(path).suffix.lower() == ".tfrecord":
        raise _unconverted(Path(path), Path(TABLE_FILE))
    return load_once(_load, path, "table of NAS-Bench-101")


@checked
def open_cells(path: str | Path | None = None) -> CellTable:
    """Return the table of :func:`find_cells`; without one, raise a UserError that says how to get it."""
    table = find_cells(path)
    if table is not None:
        return table
    for unconverted in data_files("nasbench101", *PUBLISHED_FILES):
        raise _unconverted(unconverted, unconverted.with_name(TABLE_FILE))
    raise UserError(
        "no NAS-Bench-101 table was found; convert the benchmark's own file once with: archgrad convert "
        f"{PUBLISHED_FILES[-1]} -o {TABLE_FILE}, and name it with --table, or put it at "
        f"$ARCHGRAD_DATA/nasbench101/{TABLE_FILE}."
    )


def _load(path: Path) -> CellTable:
    return CellTable(path, read_columns(path, ["hash", "epochs", *MEASURES]))


def _unconverted(path: Path, out: Path) -> UserError:
    return UserError(
        f"{path} is an official file, which takes minutes to read; convert it once with: archgrad convert "
        f"{quote(str(path))} -o {quote(str(out))}, and then give --table {quote(str(out))}."
    )


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
