"""Write the CSV table from the official folder: the mean accuracy over the seeds of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from pathlib import Path
from typing import IO, Any, NamedTuple

from archgrad.errors import UserError
from archgrad.system.files import shown_path
from archgrad.tables.base import Progress
from archgrad.tables.nasbench201.official_files import read_cells

__all__ = ["write_cells"]


class _Column(NamedTuple):
    """Which accuracy a column holds: after how many epochs, trained on what, measured on which images."""

    epochs: int
    dataset: str
    images: str

    @property
    def key(self) -> str:
        """The name in the file of the accuracy after the last epoch."""
        return f"{self.images}@{self.epochs - 1}"

    @property
    def needed(self) -> bool:
        """Whether every cell must have it: the accuracies on test images after 200 epochs."""
        return self.epochs == 200 and self.images != "x-valid"


_COLUMNS = {
    "cifar10_test": _Column(200, "cifar10", "ori-test"),
    "cifar100_test": _Column(200, "cifar100", "x-test"),
    "imagenet16_test": _Column(200, "ImageNet16-120", "x-test"),
    "cifar10_valid": _Column(200, "cifar10-valid", "x-valid"),
    "cifar100_valid": _Column(200, "cifar100", "x-valid"),
    "imagenet16_valid": _Column(200, "ImageNet16-120", "x-valid"),
    "cifar10_valid_12ep": _Column(12, "cifar10-valid", "x-valid"),
    "cifar100_valid_12ep": _Column(12, "cifar100", "x-valid"),
    "imagenet16_valid_12ep": _Column(12, "ImageNet16-120", "x-valid"),
    "cifar10_test_12ep": _Column(12, "cifar10", "ori-test"),
    "cifar100_test_12ep": _Column(12, "cifar100", "x-test"),
    "imagenet16_test_12ep": _Column(12, "ImageNet16-120", "x-test"),
}


def write_cells(source: Path, file: IO[bytes], progress: Progress | None) -> dict[str, int]:
    """Write the rows of all cells as CSV; return how many cells each column has.

    Accuracies are in per cent after the last epoch: the mean over all seeds with which a cell was trained on a data
    set, rounded to four digits.
    """
    counts = dict.fromkeys(_COLUMNS, 0)
    file.write(f"{','.join(('index', 'arch', *_COLUMNS))}\n".encode())
    for index, (name, cell) in enumerate(read_cells(source, progress)):
        where = f"{shown_path(source)}, cell {index} ({name})"
        means = {column: _mean(where, name, cell, part) for column, part in _COLUMNS.items()}
        counts = {column: counts[column] + (mean is not None) for column, mean in means.items()}
        values = ("" if mean is None else str(mean) for mean in means.values())
        file.write(f"{','.join((str(index), name, *values))}\n".encode())
    return counts


def _mean(where: str, name: str, cell: object, column: _Column) -> float | None:
    """Return the mean over seeds; None where the file has no such training and need not have it."""
    results = _trainings(where, cell, column.epochs)
    if results.get("arch_str") != name:
        raise UserError(f"{where}: its results are those of another cell; get the file again.")
    seeds, trials = results.get("dataset_seed"), results.get("all_results")
    if not isinstance(seeds, dict) or not isinstance(trials, dict):
        raise UserError(f"{where} has no dicts 'dataset_seed' and 'all_results'; get the file again.")
    chosen = seeds.get(column.dataset, [])
    if not isinstance(chosen, list) or not all(isinstance(seed, int) for seed in chosen):
        raise UserError(f"{where} has no list of seeds for {column.dataset}; get the file again.")
    if not chosen and not column.needed:
        return None
    accuracies = [_accuracy(where, trials.get((column.dataset, seed)), column) for seed in chosen]
    if not accuracies:
        raise UserError(f"{where} was not trained on {column.dataset} for {column.epochs} epochs; get the file again.")
    return round(fsum(accuracies) / len(accuracies), 4)


def _trainings(where: str, cell: object, epochs: int) -> Mapping[str, Any]:
    found = cell.get(str(epochs)) if isinstance(cell, dict) else None
    if isinstance(found, dict):
        return found
    raise UserError(f"{where} has no trainings of {epochs} epochs; get the folder of the topology space (tss).")


def _accuracy(where: str, trial: object, column: _Column) -> float:
    values = trial.get("eval_acc1es") if isinstance(trial, dict) else None
    value: Any = values.get(column.key) if isinstance(values, dict) else None
    if type(value) not in {int, float} or not 0 <= value <= 100:
        raise UserError(f"{where} has no accuracy {column.key} on {column.dataset} from 0 to 100; get the file again.")
    return float(value)
