"""Parquet files, which anyone may have made: opened, or refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, missing_extra, reason
from archgrad.system.files import check_regular

__all__ = ["import_arrow", "open_parquet"]


def import_arrow(need: str, extra: str) -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``; ``extra`` of archgrad installs them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra("pyarrow", need, extra) from None
    return pa, pq


@contextmanager
def open_parquet(path: Path, what: str, extra: str, damaged: Callable[[Path, str], UserError]) -> Iterator[Any]:
    """Yield a :class:`pyarrow.parquet.ParquetFile`; ``damaged(path, reason)`` is the error for one that is none."""
    pa, pq = import_arrow(f"reading a {what}", extra)
    check_regular(path, what)
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except UserError:
        raise
    except (pa.ArrowException, OSError, KeyError, IndexError, ValueError, OverflowError) as problem:
        raise damaged(path, reason(problem)) from problem
