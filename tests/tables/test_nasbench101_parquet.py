"""Tables of NAS-Bench-101 that somebody else has made, or says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from records101 import CHAIN, PAIR, SKIP

from archgrad.errors import UserError
from archgrad.tables import open_cells


def ask_everything(path: Path) -> None:
    """Ask a table whatever can be asked."""
    table = open_cells(path)
    for epochs in table.epochs:
        for measure in ("valid", "test"):
            table.rank(table.best(measure, epochs).module, measure, epochs)
    for module in (CHAIN, PAIR, SKIP):
        table.find(module)


def test_whole_tables_answer_everything(parquet: Path) -> None:
    ask_everything(parquet)


def column(name: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    """Change the values of a column, which keeps its type."""

    def changed(table: pa.Table) -> pa.Table:
        place, field = table.column_names.index(name), table.schema.field(name)
        return table.set_column(place, field, pa.array(change(table[name].to_pylist()), field.type))

    return changed


def all_are(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value] * len(values)


def nullable(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([pa.field(field.name, field.type) for field in table.schema]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda table: table.drop_columns(["train"]), "its columns are not hash, epochs"),
        (lambda table: table.append_column("more", table["train"]), "its columns are not hash, epochs"),
        (lambda table: table.select(table.column_names[::-1]), "its columns are not hash, epochs"),
        (lambda table: pa.table({"image": [b"x"], "label": [1]}), "its columns are not hash, epochs"),
        (nullable, "its columns are not hash, epochs"),
        (lambda table: table.slice(0, 0), "it has no rows"),
        (column("test", all_are(float("nan"))), "have accuracies that are not from 0 to 1"),
        (column("operations", all_are("input,zz,output")), "unknown operation of vertex 1"),
        (column("matrix", all_are("x")), "its matrix is 'x', not the digits"),
    ],
)
def test_a_strangers_table_is_refused_with_a_sentence(
    parquet: Path, change: Callable[[pa.Table], pa.Table], problem: str
) -> None:
    pq.write_table(change(pq.read_table(parquet)), parquet)
    with pytest.raises(
        UserError, match=rf"is not a table of NAS-Bench-101 .*{problem}.*; make one with: archgrad conv"
    ):
        ask_everything(parquet)


@pytest.mark.parametrize("keep", [0, 3, 50, -1])
def test_a_table_that_was_cut_is_refused(parquet: Path, keep: int) -> None:
    parquet.write_bytes(parquet.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"is not a table of NAS-Bench-101 .*; make one with: archgrad convert"):
        open_cells(parquet)


def test_flipped_bytes_are_never_a_traceback(parquet: Path) -> None:
    good = parquet.read_bytes()
    for place in range(0, len(good), 29):
        parquet.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        try:
            ask_everything(parquet)
        except UserError:
            continue


def test_a_table_is_read_again_when_it_has_changed(parquet: Path) -> None:
    first = open_cells(parquet)
    assert open_cells(parquet) is first
    table = pq.read_table(parquet)
    pq.write_table(table.slice(0, 1), parquet)
    assert (len(first), len(open_cells(parquet))) == (3, 1)
