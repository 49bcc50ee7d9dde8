"""Atomic writes, and reads that neither hang nor fill the memory.

A reader of a file that is being written sees the old content or the new one, never half of it.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from archgrad.errors import UserError, shortened

__all__ = [
    "PathLike",
    "atomic_write",
    "check_regular",
    "existing_path",
    "exists",
    "is_unfinished",
    "list_folder",
    "make_folder",
    "open_regular",
    "read_regular",
    "read_text",
    "shown_path",
    "unfinished_files",
    "write_bytes",
    "write_text",
]

PathLike = str | os.PathLike[str]

_PROBLEMS = (OSError, ValueError, RuntimeError)
"""What the system raises about a path: a null byte is a ValueError, the ``~`` of an unknown user a RuntimeError."""
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip
_DEEPEST = 200
_TOKEN_BYTES = 8
_PIECE = 1 << 16
_UNFINISHED = re.compile(rf"\..+\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.part")


def make_folder(path: Path) -> None:
    """Make a folder and those around it; hundreds of them in one another are a mistake, and an OSError."""
    if len(path.parts) > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"{len(path.parts)} folders in one another are too many")
    path.mkdir(parents=True, exist_ok=True)


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces ``path`` when the block ends without an exception.

    The data reaches the disk before the rename, and the rename before the return: a power cut leaves one complete file.
    """
    make_folder(path.parent)
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
    return [path for path in folder.iterdir() if is_unfinished(path)]


def is_unfinished(path: Path) -> bool:
    """Tell whether this is a temporary file of :func:`atomic_write`."""
    return _UNFINISHED.fullmatch(path.name) is not None


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file's content atomically."""
    with atomic_write(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace the file's content atomically, in UTF-8."""
    write_bytes(path, text.encode())


def shown_path(path: PathLike) -> str:
    """Return a path for a message: in quotes, escaped, and cut if it is long."""
    return shortened(os.fspath(path), longest=150)


def as_path(name: str, given: object) -> Path:
    """Return the path of a folder that a user gives as the argument ``name``."""
    if not isinstance(given, str | Path) or "\0" in str(given):
        raise UserError(f"{name} is {shortened(given)}; it must be the path of a folder.")
    return Path(given)


def exists(path: Path) -> bool:
    """Tell whether there is a file or folder; a name that no file can have names none."""
    try:
        return path.exists()
    except (OSError, ValueError) as error:
        return isinstance(error, PermissionError)


def existing_path(path: PathLike, what: str = "file") -> Path:
    """Return the path of something that exists, with ``~`` expanded; else raise a UserError."""
    try:
        found = Path(path).expanduser()
        found.stat()
        return found
    except _PROBLEMS as problem:
        raise _unreadable(problem, path, what) from problem


def list_folder(path: PathLike, what: str = "folder") -> tuple[list[Path], list[Path]]:
    """Return the sub-folders and all other entries of a folder, sorted; raise a UserError if it cannot be listed."""
    try:
        with os.scandir(path) as entries:
            found = sorted((Path(entry.path), entry.is_dir()) for entry in entries)
        return [path for path, is_folder in found if is_folder], [path for path, is_folder in found if not is_folder]
    except _PROBLEMS as problem:
        raise _unreadable(problem, path, what) from problem


def open_regular(path: PathLike, what: str = "file", most: int | None = None) -> IO[bytes]:
    """Open a regular file of at most ``most`` bytes to read it; raise a UserError for anything else.

    Pipes and devices are refused without waiting for them.
    """
    try:
        found = Path(path).expanduser()
        _check_kind(found.stat(), path, what, most)  # before it is opened: to open a device may change it
        descriptor = os.open(found, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(descriptor, "rb")
        try:
            _check_kind(os.fstat(descriptor), path, what, most)
        except UserError:
            file.close()
            raise
        return file
    except _PROBLEMS as problem:
        raise _unreadable(problem, path, what) from problem


def check_regular(path: PathLike, what: str = "file", most: int | None = None) -> None:
    """Raise a UserError unless ``path`` is a readable regular file of at most ``most`` bytes."""
    open_regular(path, what, most).close()


def read_regular(path: PathLike, what: str = "file", most: int = 1 << 30) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes, even if it is endless or grows meanwhile."""
    with open_regular(path, what, most) as file:
        try:
            # Not more at once than there is: Python takes memory for all that is asked for.
            content = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
            while len(content) <= most and (more := file.read(min(len(content) + _PIECE, most + 1 - len(content)))):
                content += more
        except _PROBLEMS as problem:
            raise _unreadable(problem, path, what) from problem
    if len(content) > most:
        raise _too_large(path, what, len(content), most)
    return content


def read_text(path: PathLike, what: str = "file", most: int = 1 << 30) -> str:
    """Return the text of a regular file of at most ``most`` bytes, in UTF-8 and with any ends of lines."""
    try:
        return io.TextIOWrapper(io.BytesIO(read_regular(path, what, most)), encoding="utf-8").read()
    except UnicodeDecodeError as problem:
        raise UserError(f"the {what} {shown_path(path)} is no text in UTF-8; give another path.") from problem


def _unreadable(problem: Exception, path: PathLike, what: str) -> UserError:
    """Turn what the system says of a path into a sentence."""
    if isinstance(problem, UserError):
        return problem
    if isinstance(problem, FileNotFoundError | NotADirectoryError):
        return UserError(f"there is no {what} at {shown_path(path)}; check the path.")
    reason = getattr(problem, "strerror", None) or str(problem).rstrip(".")
    return UserError(f"the {what} {shown_path(path)} cannot be read ({reason}); give another path.")


def _check_kind(found: os.stat_result, path: PathLike, what: str, most: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise UserError(f"the {what} {shown_path(path)} is {kind}; give the path of a regular file.")
    if most is not None and found.st_size > most:
        raise _too_large(path, what, found.st_size, most)


def _too_large(path: PathLike, what: str, size: int, most: int) -> UserError:
    return UserError(f"the {what} {shown_path(path)} has {size:,} bytes or more; at most {most:,} are read.")


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open folders, and its rename is durable
        return
    with suppress(OSError):  # some network file systems refuse; the file is in place anyway
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
