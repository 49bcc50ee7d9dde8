"""What the run directories of trainings, selections and fits have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archgrad.data.catalog import absolute_name
from archgrad.distributed.processes import from_first, joined, processes
from archgrad.errors import DiskError, SearchInterrupted, UserError
from archgrad.loop.folder import OF_THE_DISK
from archgrad.loop.global_state import take_turns
from archgrad.system.files import exists, is_unfinished, list_folder, make_folder, read_text, write_text
from archgrad.system.run_kind import RUN_FILE, RunKind, write_kind

__all__ = ["IN_PYTHON", "REPORT", "check_empty", "claim", "name_in_file", "read_json", "run_alone", "sweep", "to_json"]

IN_PYTHON = "given in Python"
"""Stands in a file for images that it cannot name."""
REPORT = "report.html"
"""The page in the run directory of a training, a selection or a fit."""
_MOST_BYTES = 1 << 24


@contextmanager
def run_alone(device: str, folder: Path | None, part: str = "") -> Iterator[None]:
    """Run a workflow: no other thread of this process does, and several processes have joined.

    The message about a stopped part, or a full disk, names the folder of the whole, which must be continued.
    Unfinished files that a killed process has left in the folder are removed.
    """
    try:
        with take_turns(), joined(device):
            sweep(folder)
            yield
    except OSError as error:
        if folder is None or not (isinstance(error, DiskError) or error.errno in OF_THE_DISK):
            raise
        told = str(error).partition(";")[0] if isinstance(error, DiskError) else f"{folder}: {error.strerror}"
        raise DiskError(f"{told}; make room on its disk, then `archgrad resume {folder}` continues.") from error
    except SearchInterrupted as stop:
        if folder is None:
            raise
        place = str(stop).partition(";")[0]
        raise SearchInterrupted(f"{place}{part}; continue with `archgrad resume {folder}`.", stop.signal) from stop


def sweep(folder: Path | None) -> None:
    """Remove the unfinished files that killed processes have left in a run directory, also in its parts."""
    if folder is not None and processes().rank == 0 and exists(folder / RUN_FILE):
        for path in folder.rglob(".*.part"):
            if is_unfinished(path):
                path.unlink(missing_ok=True)


def check_empty(folder: Path, texts: Sequence[str] = ()) -> None:
    """Reject a folder that holds anything, but for the first files of a run that was killed when it wrote ``texts``."""

    def is_filled() -> bool:
        inside = [path for part in list_folder(folder) for path in part] if exists(folder) else []
        found = {path.name for path in inside if not is_unfinished(path)}
        return not found <= ({RUN_FILE, *texts[:-1]} if texts else set())

    if from_first(is_filled):
        raise UserError(
            f"{folder} is not empty; choose a new folder, or continue what is there: `archgrad resume {folder}`."
        )


def claim(folder: Path, kind: RunKind, texts: Mapping[str, str]) -> None:
    """Begin a run directory with these texts by file name; the last one tells that it is begun."""
    check_empty(folder, list(texts))
    if processes().rank:
        return
    try:
        make_folder(folder)
        write_kind(folder, kind)
        sweep(folder)
        for name, text in texts.items():
            write_text(folder / name, text)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror or error}); choose another folder.") from error


def name_in_file(images: Any) -> str | None:
    """Return how a file names images: by an absolute name, or it says that they were given in Python."""
    if images is None:
        return None
    return absolute_name(images) if isinstance(images, str) else IN_PYTHON


def to_json(content: Mapping[str, Any]) -> str:
    """Return the text of a file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_json(path: Path, what: str, names: Sequence[str]) -> dict[str, Any]:
    """Read a file that describes ``what``, such as "a fit"; it must have these names."""
    try:
        content = json.loads(read_text(path, f"description of {what}", _MOST_BYTES))
        return dict(content) | {name: content[name] for name in names}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} does not describe {what}; start a new one in another folder.") from error
