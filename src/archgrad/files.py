"""Atomic writes: a reader sees the old content or the new one, never half of it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["atomic_write", "unfinished_files", "write_bytes", "write_text"]

_TOKEN_BYTES = 8
_UNFINISHED = re.compile(rf"\..+\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.part")


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces ``path`` when the block ends without an exception.

    The data reaches the disk before the rename, and the rename before the return: a power cut leaves one complete file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A plain exclusive open, unlike mkstemp, leaves the permissions to the user's umask.
    part = path.parent / f".{path.name[:40]}.{secrets.token_hex(_TOKEN_BYTES)}.part"
    file = part.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def unfinished_files(folder: Path) -> list[Path]:
    """Return the temporary files that killed processes have left in a folder."""
    return [path for path in folder.iterdir() if _UNFINISHED.fullmatch(path.name)]


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file's content atomically."""
    with atomic_write(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace the file's content atomically, in UTF-8."""
    write_bytes(path, text.encode())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open folders, and its rename is durable
        return
    with suppress(OSError):  # some network file systems refuse; the file is in place anyway
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
