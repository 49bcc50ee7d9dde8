"""An index of a NAS-Bench-101 file: an SQLite database that finds a cell among 423,624 at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from archgrad.errors import UserError
from archgrad.spaces.nasbench101 import Module
from archgrad.tables.nasbench101.index_packing import Run, unpack_module, unpack_runs
from archgrad.tables.nasbench101.index_schema import MOST_BUDGETS, DamagedIndex, check_form, connect
from archgrad.tables.nasbench101.protobuf import Malformed

__all__ = ["Cell", "Index", "Measure", "open_index"]

Measure = Literal["valid", "test"]

_BY_HASH = "SELECT id, hash, matrix, operations, parameters FROM cells WHERE hash = ?"
_BY_NUMBER = "SELECT id, hash, matrix, operations, parameters FROM cells WHERE id = ?"
_BEST = (
    "SELECT cell FROM results WHERE epochs = :epochs "
    "ORDER BY CASE :measure WHEN 'valid' THEN valid ELSE test END DESC, cell LIMIT 1"
)
_BETTER = (
    "SELECT count(*) FROM results, (SELECT valid AS own_valid, test AS own_test FROM results "
    "WHERE epochs = :epochs AND cell = :cell) "
    "WHERE epochs = :epochs AND CASE :measure WHEN 'valid' THEN valid > own_valid ELSE test > own_test END"
)


class Cell(NamedTuple):
    """The data of a cell that do not depend on its training."""

    number: int
    hash: str
    module: Module
    parameters: int


@dataclass(frozen=True)
class Index:
    """A complete index of the file ``source``; ``trained`` maps numbers of epochs to numbers of cells."""

    path: Path
    source: str
    cells: int
    records: int
    trained: Mapping[int, int]

    @property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of epochs for which cells were trained, sorted."""
        return tuple(self.trained)

    def cell(self, hash_: str) -> Cell | None:
        """Return the cell with this hash, or None."""
        return self._cell(_BY_HASH, bytes.fromhex(hash_))

    def runs(self, cell: Cell, epochs: int) -> tuple[Run, ...]:
        """Return the runs of a cell with this many epochs, in the order of the file."""
        with connect(self.path) as index:
            found = index.execute(
                "SELECT packed FROM runs WHERE epochs = ? AND cell = ?", (epochs, cell.number)
            ).fetchone()
        try:
            return () if found is None else unpack_runs(found[0])
        except Malformed as problem:
            raise DamagedIndex(self.path, str(problem)) from None

    def best(self, measure: Measure, epochs: int) -> Cell:
        """Return the cell with the highest mean accuracy after ``epochs`` epochs; the first in the file wins a tie."""
        with connect(self.path) as index:
            found = index.execute(_BEST, {"epochs": epochs, "measure": measure}).fetchone()
        cell = None if found is None else self._cell(_BY_NUMBER, found[0])
        if cell is None:
            raise DamagedIndex(self.path, f"it lists cells trained for {epochs} epochs, but has none")
        return cell

    def better(self, cell: Cell, measure: Measure, epochs: int) -> int:
        """Return the number of cells with a higher mean accuracy than this one."""
        asked = {"epochs": epochs, "measure": measure, "cell": cell.number}
        with connect(self.path) as index:
            return int(index.execute(_BETTER, asked).fetchone()[0])

    def _cell(self, query: str, value: object) -> Cell | None:
        with connect(self.path) as index:
            found = index.execute(query, (value,)).fetchone()
        if found is None:
            return None
        number, hash_, matrix, operations, parameters = found
        if not isinstance(hash_, bytes) or not isinstance(number, int) or not isinstance(parameters, int):
            raise DamagedIndex(self.path, "a cell has an invalid hash, number or size")
        try:
            module = unpack_module(matrix, operations)
            if module.hash == hash_.hex():
                return Cell(number, module.hash, module, parameters)
        except (Malformed, UserError) as problem:
            raise DamagedIndex(self.path, str(problem).rstrip(".")) from None
        raise DamagedIndex(self.path, f"a cell has another hash than {hash_.hex()}")


def open_index(path: Path) -> Index:
    """Open an index; raise DamagedIndex unless it is complete and of this version."""
    check_form(path)
    with connect(path) as index:
        facts = dict(index.execute("SELECT name, value FROM facts WHERE name IN ('source', 'cells', 'records')"))
        budgets = index.execute(
            "SELECT epochs, cells FROM budgets ORDER BY epochs LIMIT ?", (MOST_BUDGETS + 1,)
        ).fetchall()
    if len(facts) < 3:
        raise DamagedIndex(path, "it was not finished")
    source, cells, records = facts["source"], facts["cells"], facts["records"]
    if not isinstance(source, str) or not _are_counts(cells, records):
        raise DamagedIndex(path, "its facts are not a path and two numbers")
    if not 1 <= len(budgets) <= MOST_BUDGETS or not all(_are_counts(*budget) for budget in budgets):
        raise DamagedIndex(path, f"its cells are not trained for 1 to {MOST_BUDGETS} numbers of epochs")
    return Index(path, source, cells, records, dict(budgets))


def _are_counts(*values: object) -> bool:
    return all(isinstance(value, int) and value > 0 for value in values)
