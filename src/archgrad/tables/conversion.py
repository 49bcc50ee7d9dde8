"""Write the table that look-ups read from an official benchmark file, once."""

from __future__ import annotations

from pathlib import Path

from archgrad.errors import ArchgradError, UserError
from archgrad.parts.fields import checked
from archgrad.system.files import atomic_write, existing_path, shown_path
from archgrad.tables.base import Progress
from archgrad.tables.nasbench101.parquet_file import write_runs
from archgrad.tables.nasbench201.official_folder import write_cells

__all__ = ["convert_table"]


@checked
def convert_table(source: str | Path, out: str | Path, progress: Progress | None = None) -> dict[str, int]:
    """Write the table from an official file or folder; return how many cells each column or training has.

    A TFRecord file of NAS-Bench-101 becomes a parquet file, any other one the CSV of NAS-Bench-201. Reading takes
    minutes. The file ``out`` is replaced when all cells are read.
    """
    source, out = existing_path(source, "benchmark file"), Path(out)
    write = write_runs if source.suffix.lower() == ".tfrecord" else write_cells
    try:
        out = out.expanduser()
        if out.is_dir() or (out.exists() and out.samefile(source)):
            raise UserError(f"the table cannot be written to {shown_path(out)}; give another file, such as table.csv.")
        with atomic_write(out) as file:  # opened first: nobody should wait for minutes to learn that it cannot be
            return write(source, file, progress)
    except ArchgradError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # the ~ of an unknown user is a RuntimeError
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"{shown_path(out)} cannot be written ({problem}); choose another file.") from error
