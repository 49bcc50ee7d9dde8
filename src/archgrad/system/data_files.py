"""The files of ``$ARCHGRAD_DATA``, each read once."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from archgrad.system.files import existing_path

__all__ = ["data_files", "load_once"]

Loaded = TypeVar("Loaded")


def data_files(folder: str, *names: str) -> list[Path]:
    """Return those of the named files that are in a folder of ``$ARCHGRAD_DATA``."""
    data = os.environ.get("ARCHGRAD_DATA")
    # Unlike that of Path, this function leaves the ~ of an unknown user alone.
    home = os.path.expanduser(data or "")  # noqa: PTH111
    return [path for name in names if home and (path := Path(home, folder, name)).exists()]


def load_once(load: Callable[[Path], Loaded], path: str | Path, what: str) -> Loaded:
    """Return what ``load`` reads from a file; a file that has not changed is not read again."""
    found = existing_path(path, what).resolve()
    status = found.stat()
    loaded: Loaded = _load_version(load, found, status.st_mtime_ns, status.st_size)
    return loaded


@cache
def _load_version(load: Callable[[Path], Any], path: Path, modified: int, size: int) -> Any:
    return load(path)
