"""The parquet table of NAS-Bench-101: one row per training run. Anyone may have made it, so it is not trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.system.files import shown_path
from archgrad.system.parquet import import_arrow, open_parquet

__all__ = ["arrow", "foreign", "read_columns", "read_rows_at", "schema"]

_MOST_ROWS = 10_000_000
"""Twice as many as the trainings of the whole benchmark."""


def arrow() -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``."""
    return import_arrow("the table of NAS-Bench-101", "nasbench101")


def schema() -> Any:
    """Return the columns of the table; the accuracies are at the end of a run, from 0 to 1."""
    pa, _ = arrow()
    kinds = {"hash": pa.binary(16), "epochs": pa.int32(), "matrix": pa.string(), "operations": pa.string()}
    kinds |= {"parameters": pa.int64()} | dict.fromkeys(("seconds", "train", "valid", "test"), pa.float64())
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def foreign(path: Path, problem: object) -> UserError:
    """Build the error for a file that is not such a table."""
    return UserError(
        f"{shown_path(path)} is not a table of NAS-Bench-101 ({problem}); make one with: "
        "archgrad convert FILE.tfrecord -o nasbench101.parquet"
    )


def read_columns(path: Path, names: Sequence[str]) -> Any:
    """Read these columns of all runs; accuracies that cannot be are an error."""
    with _opened(path) as file:
        found = file.read(columns=list(names))
    import pyarrow.compute as pc

    for name in {"train", "valid", "test"} & set(names):
        if not pc.all(pc.and_(pc.greater_equal(found[name], 0), pc.less_equal(found[name], 1))).as_py():
            raise foreign(path, f"its column {name} has values that are not from 0 to 1")
    return found


def read_rows_at(path: Path, places: Sequence[int]) -> list[dict[str, Any]]:
    """Read the rows at these places, given in order."""
    rows: list[dict[str, Any]] = []
    with _opened(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            own = [place - start for place in places if start <= place < end]
            if own:
                rows += file.read_row_group(group).take(own).to_pylist()
            start = end
    return rows


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with open_parquet(path, "table of NAS-Bench-101", "nasbench101", foreign) as file:
        if not file.schema_arrow.equals(schema()):
            raise foreign(path, f"its columns are not {', '.join(schema().names)} with their types")
        if not 0 < file.metadata.num_rows <= _MOST_ROWS:
            raise foreign(path, f"it has {file.metadata.num_rows} rows")
        yield file
