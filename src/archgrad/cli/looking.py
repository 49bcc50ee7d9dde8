"""Reading architectures that a user names, and looking cells up."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from archgrad.benchmarks import CellTable, open_cells, open_table
from archgrad.benchmarks.nasbench101 import Progress, spaces_with
from archgrad.benchmarks.nasbench101.table import EPOCHS, INDEX_SUFFIX, MEASURES
from archgrad.benchmarks.nasbench201 import DATASETS
from archgrad.errors import UserError
from archgrad.spaces import Genotype, NASBench201
from archgrad.spaces.nasbench101 import Module, module_of, pruned_genotype
from archgrad.spaces.notation import LONGEST
from archgrad.spaces.notation.node_form import BLOCKS

__all__ = ["best", "look_up", "read_architecture", "read_drawable", "show"]

_CSV = ".csv"
_CELLS = (".tfrecord", INDEX_SUFFIX)


def read_drawable(text: str) -> Genotype:
    """Return a genotype to draw, also of a module of NAS-Bench-101, without its loose ends."""
    found = read_architecture(text)
    return pruned_genotype(found) if isinstance(found, Module) else found


def read_architecture(text: str) -> Genotype | Module:
    """Return a genotype, or a module of NAS-Bench-101 as JSON, given as text, as a file or as a run directory."""
    content = _content(text)
    is_module = content.lstrip().startswith("{") and '"matrix"' in content
    return Module.parse(content) if is_module else Genotype.parse(content)


def look_up(architecture: Genotype | Module, table: Path | None, progress: Progress | None = None) -> dict[str, Any]:
    """Return what a table knows of a cell of NAS-Bench-201, or of one of NAS-Bench-101 or -1Shot1."""
    if isinstance(architecture, Module) or architecture.names == BLOCKS:
        _check_benchmark(
            table, (_CSV,), "NAS-Bench-201", "the cell is one of NAS-Bench-101; give a TFRecord file of that"
        )
        return _look_up_101(architecture, open_cells(table, progress))
    NASBench201().check(architecture)
    _check_benchmark(table, _CELLS, "NAS-Bench-101", "the cell is one of NAS-Bench-201; give a CSV file of that")
    return _look_up_201(architecture, table)


def best(table: Path, progress: Progress | None = None) -> dict[str, Any]:
    """Return what a table knows of its best cell by test accuracy on CIFAR-10, after the longest training."""
    if table.suffix.lower() == _CSV:
        return _look_up_201(open_table(table).best(DATASETS[0]), table)
    cells = open_cells(table, progress)
    return _look_up_101(cells.best("test", cells.epochs[-1]).module, cells)


def show(answer: dict[str, Any]) -> str:
    """Print an answer of :func:`look_up` or :func:`best` as lines of text."""
    return "\n".join(_shown_101(answer) if "hash" in answer else _shown_201(answer))


def _check_benchmark(table: Path | None, suffixes: tuple[str, ...], benchmark: str, otherwise: str) -> None:
    if table is not None and table.suffix.lower() in suffixes:
        raise UserError(f"{table} is by its name a table of {benchmark}, but {otherwise}.")


def _look_up_201(genotype: Genotype, table_path: Path | None) -> dict[str, Any]:
    """Return the table's accuracies and ranks of a NAS-Bench-201 cell, and the size of its full network."""
    table = open_table(table_path)
    accuracies = table.query(genotype)
    size = NASBench201().cost(genotype)
    return {
        "genotype": str(genotype),
        "kind": accuracies.kind,
        "source": accuracies.source,
        "accuracy": {dataset: round(accuracy, 4) for dataset, accuracy in accuracies.items()},
        "rank": {dataset: table.rank(genotype, dataset) for dataset, _ in accuracies.items()},
        "cells": len(table),
        "size": str(size),
        "parameters": size.parameters,
        "multiply_adds": size.multiply_adds,
    }


def _shown_201(answer: dict[str, Any]) -> list[str]:
    ranked = [
        f"  {dataset:<15} {accuracy:6.2f} %   rank {answer['rank'][dataset]} of {answer['cells']}"
        for dataset, accuracy in answer["accuracy"].items()
    ]
    return [
        f"{answer['genotype']}\n{answer['kind']} ({answer['source']}):",
        *ranked,
        f"  full size       {answer['size']}",
    ]


def _look_up_101(cell: Genotype | Module, table: CellTable) -> dict[str, Any]:
    """Return accuracies and ranks after every number of epochs, and the regrets in the spaces that have the cell."""
    module = cell if isinstance(cell, Module) else module_of(cell)
    records = {epochs: found for epochs in table.epochs if (found := table.find(module, epochs)) is not None}
    record = records[max(records)] if records else table.query(module, table.epochs[-1])
    drawn = {"genotype": str(cell)} if isinstance(cell, Genotype) else {}
    trained = [_trained(table, module, epochs) for epochs in records]
    return drawn | {
        "hash": record.hash,
        **record.module.to_dict(),
        "source": table.source,
        "cells": len(table),
        "parameters": record.parameters,
        "trained": trained,
        "regret": _regrets(table, cell) if EPOCHS in records else {},
    }


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
    return {"epochs": epochs, "cells": table.index.trained[epochs], "seconds": round(record.seconds, 1), **measures}


def _regrets(table: CellTable, cell: Genotype | Module) -> dict[str, Any]:
    record, regrets = table.query(cell), {}
    for number in spaces_with(cell):
        optimum = table.space_optimum(number)
        found = {measure: round(value, 4) for measure, value in optimum.regret(record).items()}
        errors = {"optimum_valid_error": optimum.valid_error, "optimum_test_error": optimum.test_error}
        regrets[f"nasbench1shot1-{number}"] = found | errors | {"optimum": optimum.source}
    return regrets


def _shown_101(answer: dict[str, Any]) -> list[str]:
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
        own = regret["optimum"] == answer["source"]
        lines.append(
            f"  regret in {space}: test {regret['test']:.2f} %, valid {regret['valid']:.2f} % to "
            f"{'the best runs of this file' if own else 'the published optimum, as this file lacks cells of the space'}"
        )
    return lines


def _content(text: str) -> str:
    """Return text as it is, or the content of the file or run directory that it names."""
    path = Path(text)
    if _exists(path / "genotype.json"):
        path /= "genotype.json"
    if not _exists(path):
        if path.suffix in (".json", ".txt") or "/" in text.partition("|")[0].partition("{")[0]:
            raise UserError(f"there is no file {text}; give a genotype, a file or a run directory that holds one.")
        return text
    if path.is_dir():
        raise UserError(
            f"{path} has no genotype.json; give the directory of a search that has finished an epoch and decided: an "
            f"even mixture, as in a warm-up, has no genotype."
        )
    if not path.is_file():
        raise UserError(f"{path} is no regular file; give a genotype, a file or a run directory that holds one.")
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a genotype ({error}).") from error
    if len(content) > LONGEST:
        raise UserError(f"{path} has more than {LONGEST} characters; give a file with one genotype.")
    return content


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a long genotype is no file name
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
            return False
        raise
    except ValueError:
        return False
