"""A cache of indices: a file is read completely only once."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from archgrad.errors import UserError
from archgrad.tables.base import Progress
from archgrad.tables.nasbench101.cache_folder import cache_folder, index_name, remove_stale
from archgrad.tables.nasbench101.index import Index, open_index
from archgrad.tables.nasbench101.index_builder import build_index
from archgrad.tables.nasbench101.index_schema import FORMAT, DamagedIndex

__all__ = ["cached_index", "index_path"]

_logger = logging.getLogger(__name__)


def cached_index(source: Path, progress: Progress | None = None) -> Index:
    """Return the index of a TFRecord file; build it if the file is new or has changed."""
    target = index_path(source)
    if _is_there(target):
        try:
            return open_index(target)
        except DamagedIndex as error:
            _logger.warning("the index %s of %s is made again: %s.", target, source, error.problem)
    remove_stale(target.parent)
    build_index(source, target, progress)
    return open_index(target)


def index_path(source: Path) -> Path:
    """Return the path of a file's index; its name depends on the file and its version."""
    try:
        found = source.resolve()
        status = found.stat()
    except FileNotFoundError:
        raise UserError(f"{source} does not exist; give the path of a TFRecord file of NAS-Bench-101.") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{source} cannot be read ({error}); check the path and its permissions.") from None
    identity = f"{found}\0{status.st_size}\0{status.st_mtime_ns}\0{FORMAT}"
    return cache_folder() / index_name(hashlib.sha256(os.fsencode(identity)).hexdigest()[:32])


def _is_there(target: Path) -> bool:
    try:
        return target.exists()
    except OSError as error:
        raise UserError(
            f"the cache {target.parent} cannot be read ({error.strerror}); set ARCHGRAD_CACHE to another folder."
        ) from None
