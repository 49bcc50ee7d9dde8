"""The parquet table of NAS-Bench-101: one row per training run, in the order of the official file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from archgrad.errors import ArchgradError, UserError
from archgrad.parts.fields import checked
from archgrad.system.files import atomic_write, existing_path, shown_path
from archgrad.system.parquet import import_arrow, open_parquet
from archgrad.tables.base import Progress
from archgrad.tables.nasbench101.official_file import TrainingRun, read_runs

__all__ = ["PUBLISHED_CELLS", "PUBLISHED_FILES", "convert_table", "foreign", "read_columns", "read_rows_at"]

PUBLISHED_FILES = ("nasbench_full.tfrecord", "nasbench_only108.tfrecord")
PUBLISHED_CELLS = 423_624
_ROWS_AT_ONCE = 10_000

_logger = logging.getLogger(__name__)


@checked
def convert_table(source: str | Path, out: str | Path, progress: Progress | None = None) -> dict[str, int]:
    """Write the table of an official TFRecord file; return how many cells were trained for each number of epochs.

    The checksum of every record is compared. Reading takes minutes, and then the file ``out`` is replaced.
    """
    source, out = existing_path(source, "benchmark file"), Path(out)
    try:
        out = out.expanduser()
        if out.is_dir() or (out.exists() and out.samefile(source)):
            raise UserError(
                f"the table cannot be written to {shown_path(out)}; give another file, such as table.parquet."
            )
        with atomic_write(out) as file:  # opened first: nobody should wait for minutes to learn that it cannot be
            return _write_runs(source, file, progress)
    except ArchgradError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # the ~ of an unknown user is a RuntimeError
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"{shown_path(out)} cannot be written ({problem}); choose another file.") from error


def _write_runs(source: Path, file: IO[bytes], progress: Progress | None) -> dict[str, int]:
    """Write all runs; only the sizes of the cells are kept, so the numbers are read back to count them."""
    pa, pq = _arrow()
    total, runs = source.stat().st_size, read_runs(source)
    with pq.ParquetWriter(file, _schema()) as writer:
        while some := list(islice(runs, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist([run._asdict() for _, run in some], _schema()))
            if progress is not None:
                progress(some[-1][0], total)
    if progress is not None:
        progress(total, total)
    file.flush()
    written = read_columns(Path(file.name), ["hash", "epochs"])
    _warn_of_missing_cells(source, written)
    trained = written.group_by("epochs").aggregate([("hash", "count_distinct")]).sort_by("epochs").to_pydict()
    return {f"{n} epochs": cells for n, cells in zip(trained["epochs"], trained["hash_count_distinct"], strict=True)}


def _warn_of_missing_cells(source: Path, written: Any) -> None:
    """Warn if cells are missing: a cut between two records breaks no checksum."""
    cells = len(written["hash"].unique())
    if source.resolve().name in PUBLISHED_FILES and cells != PUBLISHED_CELLS:
        sentence = "%s has %d cells, but was published with %d; fetch it again."
        _logger.warning(sentence, source, cells, PUBLISHED_CELLS)


def _arrow() -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``."""
    return import_arrow("the table of NAS-Bench-101", "nasbench101")


def _schema() -> Any:
    """Return the columns of the table, the fields of a :class:`TrainingRun`."""
    pa, _ = _arrow()
    kinds = [pa.binary(16), pa.int32(), pa.string(), pa.string(), pa.int64(), *[pa.float64()] * 4]
    columns = zip(TrainingRun._fields, kinds, strict=True)
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


def foreign(path: Path, problem: object) -> UserError:
    """Build the error for a file that is not such a table."""
    return UserError(
        f"{shown_path(path)} is not a table of NAS-Bench-101 ({problem}); make one with: "
        "archgrad convert FILE.tfrecord -o nasbench101.parquet"
    )


def read_columns(path: Path, names: Sequence[str]) -> Any:
    """Read these columns of all runs."""
    with _opened(path) as file:
        return file.read(columns=list(names))


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
        if not file.schema_arrow.equals(_schema()):
            raise foreign(path, f"its columns are not {', '.join(_schema().names)} with their types")
        if not file.metadata.num_rows:
            raise foreign(path, "it has no rows")
        yield file
