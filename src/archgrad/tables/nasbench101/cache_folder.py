"""The folder of cached indices, and their names."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from archgrad.errors import UserError

__all__ = ["cache_folder", "index_name", "is_cached", "remove_stale"]

_INDEX = re.compile(r"nasbench101-[0-9a-f]{32}\.sqlite")
_PART = re.compile(r"\.nasbench101-[0-9a-f]+\.[0-9a-f]{16}\.part")
_DAY = 86_400


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


def index_name(identity: str) -> str:
    """Return the name of the index with this identity, 32 hexadecimal digits."""
    return f"nasbench101-{identity}.sqlite"


def is_cached(path: Path) -> bool:
    """Tell whether a path is an index in the cache folder."""
    with suppress(UserError, OSError, ValueError, RuntimeError):
        return bool(_INDEX.fullmatch(path.name)) and path.parent.resolve() == cache_folder().resolve()
    return False


def remove_stale(folder: Path) -> None:
    """Remove unfinished indices that nobody has written to for a day: their writers were killed."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            with suppress(OSError):
                if _PART.fullmatch(entry.name) and entry.stat().st_mtime < time.time() - _DAY:
                    Path(entry).unlink()
