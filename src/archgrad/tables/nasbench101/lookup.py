"""Look up cells of NAS-Bench-101, for ``archgrad query`` and in every epoch of a search."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from archgrad.callbacks import Measures
from archgrad.errors import UserError
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.nasbench101 import Module, module_of
from archgrad.spaces.notation.node_form import BLOCKS
from archgrad.system.data_files import data_files
from archgrad.system.warn_once import warn_once
from archgrad.tables.base import Answer, Cell, CellLookup, Oracle, Table, oracle_measure
from archgrad.tables.nasbench101.parquet_file import PUBLISHED_FILES
from archgrad.tables.nasbench101.table import (
    EPOCHS,
    MEASURES,
    PUBLISHED_OPTIMA,
    TABLE_FILE,
    CellTable,
    Optimum,
    find_cells,
    open_cells,
    spaces_containing,
)

__all__ = ["NASBench101Table"]

_SPACES = {f"nasbench1shot1-{number}": number for number in PUBLISHED_OPTIMA}
_logger = logging.getLogger(__name__)


class NASBench101Table(Table):
    """Accuracies on CIFAR-10 from the converted file of NAS-Bench-101, which contains the NAS-Bench-1Shot1 cells."""

    title = "NAS-Bench-101"
    spaces = tuple(_SPACES)
    datasets = ("cifar10",)
    suffixes = (".parquet",)

    def is_available(self) -> bool:
        """Tell whether the converted table is in ``$ARCHGRAD_DATA``."""
        return bool(data_files("nasbench101", TABLE_FILE))

    def has_form_of(self, cell: Cell) -> bool:
        """Tell whether it is a module, or a genotype with the blocks of NAS-Bench-1Shot1."""
        return isinstance(cell, Module) or cell.names == BLOCKS

    def oracle(self, space: SearchSpace, datasets: Sequence[str]) -> Oracle | None:
        """Return test and validation accuracy and regret; an unreadable file does not stop the search."""
        if "cifar10" not in datasets:
            return None
        try:
            if not data_files("nasbench101", TABLE_FILE, *PUBLISHED_FILES):
                return None
            table = open_cells()
            table.check_epochs(EPOCHS)
        except (UserError, OSError) as problem:
            return Oracle((), f"no oracle accuracy: {problem}")
        optimum = PUBLISHED_OPTIMA[_SPACES[space.name]]
        return Oracle(
            (CellLookup(partial(_measures, table, optimum)),),
            f"oracle accuracy: test and validation accuracy on cifar10 after 108 epochs, from {table.source}; "
            f"regret: mean error minus {optimum.test_error:.3f} % ({optimum.valid_error:.3f} % in validation), the "
            f"lowest of any run in the space as published",
        )

    def look_up(self, cell: Cell, path: Path | None) -> Answer:
        """Return accuracies and ranks after every number of epochs, and regrets in the spaces that have the cell."""
        return _answer(cell, open_cells(path))

    def accuracies(self, genotype: Genotype) -> dict[str, float]:
        """Return test and validation accuracy after 108 epochs."""
        cells = find_cells()
        record = None if cells is None else cells.find(genotype)
        if record is None:
            return {}
        return {oracle_measure("cifar10", f"{kind}_{EPOCHS}ep"): getattr(record, kind) for kind in ("test", "valid")}

    def best(self, path: Path) -> Answer:
        """Return the answer about a file's best cell after the longest training."""
        cells = open_cells(path)
        return _answer(cells.best("test", cells.epochs[-1]).module, cells)


def _measures(table: CellTable, optimum: Optimum, genotype: Genotype) -> Measures:
    """Return ``oracle_cifar10_test_108ep`` and ``regret_cifar10_test_108ep``, and the same of validation, in per cent.

    Accuracies are means over the runs of 108 epochs; a regret is the mean error minus that of the optimum. Nothing is
    known of a cell outside the table.
    """
    try:
        record = table.find(genotype)
    except UserError as error:  # the file was damaged or deleted while the search went on
        warn_once(_logger, "no oracle accuracy from now on: %s", error)
        return {}
    if record is None:
        warn_once(_logger, "%s lacks cells that this search comes across; those have no oracle.", table.source)
        return {}
    accuracies = {"test": record.test, "valid": record.valid}
    return {
        oracle_measure("cifar10", f"{kind}_{EPOCHS}ep", quantity): round(one, 4)
        for quantity, found in (("oracle", accuracies), ("regret", optimum.regret(record)))
        for kind, one in found.items()
    }


def _answer(cell: Cell, table: CellTable) -> Answer:
    module = cell if isinstance(cell, Module) else module_of(cell)
    records = {epochs: found for epochs in table.epochs if (found := table.find(module, epochs)) is not None}
    record = records[max(records)] if records else table.query(module, table.epochs[-1])
    drawn = {"genotype": str(cell)} if isinstance(cell, Genotype) else {}
    trained = [_trained(table, module, epochs) for epochs in records]
    content = drawn | {
        "hash": record.hash,
        **record.module.to_dict(),
        "source": table.source,
        "cells": len(table),
        "parameters": record.parameters,
        "trained": trained,
        "regret": _regrets(table, cell) if EPOCHS in records else {},
    }
    return Answer(content, "\n".join(_lines(content)))


def _trained(table: CellTable, module: Module, epochs: int) -> dict[str, Any]:
    record = table.query(module, epochs)
    measures: dict[str, Any] = {
        measure: {
            "mean": round(getattr(record, measure), 4),
            "std": round(record.spread(measure), 4),
            "runs": [round(accuracy, 4) for accuracy in record.accuracies(measure)],
            "rank": table.rank(module, measure, epochs),
        }
        for measure in MEASURES
    }
    return {"epochs": epochs, "cells": table.trained[epochs], "seconds": round(record.seconds, 1), **measures}


def _regrets(table: CellTable, cell: Cell) -> dict[str, Any]:
    record, regrets = table.query(cell), {}
    for number in spaces_containing(cell):
        optimum = PUBLISHED_OPTIMA[number]
        found = {measure: round(value, 4) for measure, value in optimum.regret(record).items()}
        errors = {"optimum_valid_error": optimum.valid_error, "optimum_test_error": optimum.test_error}
        regrets[f"nasbench1shot1-{number}"] = found | errors
    return regrets


def _lines(answer: dict[str, Any]) -> list[str]:
    lines = [f"cell {answer['hash']}" + (f" of {answer['genotype']}" if "genotype" in answer else "")]
    for row, operation in zip(answer["matrix"], answer["ops"], strict=True):
        lines.append(f"  {' '.join(map(str, row))}   {operation}")
    lines.append(f"{answer['parameters']:,} trainable parameters; mean accuracy on CIFAR-10 ({answer['source']}):")
    for found in answer["trained"]:
        parts = [
            f"{measure} {found[measure]['mean']:6.2f} ± {found[measure]['std']:.2f} %, rank {found[measure]['rank']}"
            for measure in MEASURES
        ]
        lines.append(f"  {found['epochs']:>3} epochs   {'   '.join(parts)}   of {found['cells']}")
    for space, regret in answer["regret"].items():
        test, valid = regret["test"], regret["valid"]
        lines.append(f"  regret in {space}: test {test:.2f} %, valid {valid:.2f} % to the published optimum")
    return lines
