"""A cache of indices: a file is read completely only once."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from archgrad.errors import UserError
from archgrad.tables.base import Progress, file_version
from archgrad.tables.nasbench101.index import FORMAT, DamagedIndex, Index, open_index
from archgrad.tables.nasbench101.index_builder import build_index, fingerprint_of
from archgrad.warn_once import warn_once

__all__ = ["cache_folder", "cached_index", "index_path"]

_PART = re.compile(r"\.nasbench101-[0-9a-f]+\.[0-9a-f]{16}\.part")
_DAY = 86_400

_logger = logging.getLogger(__name__)


def cached_index(source: Path, progress: Progress | None = None) -> Index:
    """Return the index of a TFRecord file; build it if the file is new or has changed."""
    target = index_path(source)
    if _is_there(target):
        try:
            index = open_index(target)
            if index.fingerprint == fingerprint_of(source):
                return index
            problem = "it was made from another file"
        except DamagedIndex as error:
            problem = error.problem
        _logger.warning("the index %s of %s is made again: %s.", target, source, problem)
    _remove_stale(target.parent)
    build_index(source, target, progress)
    return open_index(target)


def index_path(source: Path) -> Path:
    """Return the path of a file's index; its name depends on the file and its version."""
    found, status = file_version(source, "a TFRecord file of NAS-Bench-101")
    identity = f"{found}\0{status.st_size}\0{status.st_mtime_ns}\0{FORMAT}"
    return cache_folder() / f"nasbench101-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:32]}.sqlite"


def cache_folder() -> Path:
    """Return ``$ARCHGRAD_CACHE``, else ``$XDG_CACHE_HOME/archgrad``, else ``~/.cache/archgrad``."""
    own, common = os.environ.get("ARCHGRAD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        if own:
            return Path(own).expanduser()
        return (Path(common) if common else Path.home() / ".cache") / "archgrad"
    except RuntimeError:
        given = f"ARCHGRAD_CACHE is {own!r}, whose" if own else "ARCHGRAD_CACHE is not set, and the user's"
        raise UserError(f"{given} home folder is unknown; set ARCHGRAD_CACHE to the path of a folder.") from None


def _is_there(target: Path) -> bool:
    """Tell whether a cached index exists; warn if other users may have written it."""
    try:
        if target.exists():
            _warn_of_others(target.parent)
            return True
    except OSError as error:
        raise UserError(
            f"the cache {target.parent} cannot be read ({error.strerror}); set ARCHGRAD_CACHE to another folder."
        ) from None
    return False


def _warn_of_others(folder: Path) -> None:
    status = folder.stat()
    foreign = hasattr(os, "getuid") and status.st_uid not in (os.getuid(), 0)
    if foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        warn_once(
            _logger,
            "other users can write to the cache %s, and so change its accuracies; run chmod go-w on it, or set "
            "ARCHGRAD_CACHE to a folder of your own.",
            folder,
        )


def _remove_stale(folder: Path) -> None:
    """Remove unfinished indices that nobody has written to for a day: their writers were killed."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            with suppress(OSError):
                if _PART.fullmatch(entry.name) and entry.stat().st_mtime < time.time() - _DAY:
                    Path(entry).unlink()
