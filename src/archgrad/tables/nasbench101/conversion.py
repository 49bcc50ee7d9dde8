"""Write the parquet table from a TFRecord file of NAS-Bench-101: one row per training run, in the file's order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any

from archgrad.errors import UserError
from archgrad.tables.base import Progress
from archgrad.tables.nasbench101.metrics import Malformed
from archgrad.tables.nasbench101.parquet_file import arrow, read_columns, schema
from archgrad.tables.nasbench101.rows import Row, module_from, read_rows
from archgrad.tables.nasbench101.tfrecord import damaged_record

__all__ = ["PUBLISHED_CELLS", "PUBLISHED_FILES", "write_runs"]

PUBLISHED_FILES = ("nasbench_full.tfrecord", "nasbench_only108.tfrecord")
PUBLISHED_CELLS = 423_624
_ROWS_AT_ONCE = 10_000

_logger = logging.getLogger(__name__)


def write_runs(source: Path, file: IO[bytes], progress: Progress | None) -> dict[str, int]:
    """Write the runs of all cells as parquet; return how many cells were trained for each number of epochs.

    The hash of every cell is computed again and compared, and rows that contradict each other are rejected. Of what is
    read only the sizes of the cells are kept; at the end the numbers of all runs are read back to count them.
    """
    pa, pq = arrow()
    total, rows = source.stat().st_size, _consistent(source)
    with pq.ParquetWriter(file, schema()) as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(list(map(_columns, some)), schema()))
            if progress is not None:
                progress(some[-1].end, total)
    file.flush()
    written = read_columns(Path(file.name), ["hash", "epochs", "seconds", "train", "valid", "test"])
    _warn_of_doubts(source, written)
    trained = written.group_by("epochs").aggregate([("hash", "count_distinct")]).sort_by("epochs").to_pydict()
    return {f"{n} epochs": cells for n, cells in zip(trained["epochs"], trained["hash_count_distinct"], strict=True)}


def _columns(row: Row) -> dict[str, Any]:
    drawn = {"matrix": row.matrix, "operations": row.operations, "parameters": row.metrics.parameters}
    _, *amounts = row.metrics.end
    results = zip(("seconds", "train", "valid", "test"), amounts, strict=True)
    return {"hash": bytes.fromhex(row.hash), "epochs": row.epochs, **drawn, **dict(results)}


def _consistent(source: Path) -> Iterator[Row]:
    """Yield the rows, whose cells have the hash that their matrix says, and one number of parameters each."""
    sizes: dict[bytes, int] = {}
    for row in read_rows(source):
        try:
            found = _hash(row.matrix, row.operations)
        except (Malformed, UserError) as error:
            raise damaged_record(source, row.offset, f"of its cell, {error}") from None
        if found != row.hash:
            problem = f"its cell has the hash {row.hash} here and {found} by its matrix and operations"
            raise damaged_record(source, row.offset, problem)
        size = sizes.setdefault(bytes.fromhex(row.hash), row.metrics.parameters)
        if size != row.metrics.parameters:
            problem = f"its cell has {row.metrics.parameters} trainable parameters here and {size} elsewhere"
            raise damaged_record(source, row.offset, problem)
        yield row


@lru_cache(maxsize=1000)  # the runs of a cell mostly follow each other
def _hash(matrix: str, operations: str) -> str:
    return module_from(matrix, operations).hash


def _warn_of_doubts(source: Path, written: Any) -> None:
    """Warn of runs that are there twice, and of missing cells: a cut between two records breaks no checksum."""
    repeated = written.num_rows - written.group_by(written.column_names).aggregate([]).num_rows
    if repeated:
        _logger.warning("%d runs in %s repeat another one and are counted again.", repeated, source)
    cells = len(written["hash"].unique())
    if source.resolve().name in PUBLISHED_FILES and cells != PUBLISHED_CELLS:
        sentence = "%s has %d cells, but was published with %d; fetch it again."
        _logger.warning(sentence, source, cells, PUBLISHED_CELLS)
