"""The accuracies of NAS-Bench-201 in a CSV file."""

from __future__ import annotations

from pathlib import Path

from archgrad.errors import UserError
from archgrad.spaces.cell_columns import read_cell_columns
from archgrad.spaces.nasbench201_cells import CELLS

__all__ = ["SHORT_COLUMNS", "TEST_COLUMNS", "VALIDATION_COLUMNS", "needed_columns", "read_columns"]

TEST_COLUMNS = ("cifar10_test", "cifar100_test", "imagenet16_test")
VALIDATION_COLUMNS = ("cifar10_valid", "cifar100_valid", "imagenet16_valid")
SHORT_COLUMNS = ("cifar10_valid_12ep", "cifar100_valid_12ep", "imagenet16_valid_12ep")
_KNOWN = (*TEST_COLUMNS, *VALIDATION_COLUMNS, *SHORT_COLUMNS)
_FORM = "give a CSV file with the columns arch, cifar10_test, cifar100_test and imagenet16_test"


def read_columns(path: Path) -> dict[str, tuple[float, ...]]:
    """Return the accuracies of all cells by code, for every known column that has all of them."""
    found = read_cell_columns(
        path, "table", lambda header: [name for name in _KNOWN if name in header], ("an accuracy", 100), _FORM
    )
    return {name: tuple(column.tolist()) for name, column in found.items() if column.isfinite().all()}


def needed_columns(
    path: Path, found: dict[str, tuple[float, ...]], names: tuple[str, ...]
) -> tuple[tuple[float, ...], ...]:
    """Return the columns of these names; raise a UserError if the table lacks one or some of its values."""
    missing = [name for name in names if name not in found]
    if missing:
        raise UserError(
            f"the table {path} has no column {', '.join(missing)} with all {CELLS} cells; give a CSV file with arch, "
            f"{', '.join(names)}."
        )
    return tuple(found[name] for name in names)
