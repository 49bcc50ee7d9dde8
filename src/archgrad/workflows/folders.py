"""What the run directories of trainings, selections and fits have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archgrad.data.catalog import absolute_name
from archgrad.distributed.processes import from_first, joined, processes
from archgrad.errors import SearchInterrupted, UserError
from archgrad.loop.global_state import take_turns
from archgrad.system.files import exists, list_folder, make_folder, read_text, write_text
from archgrad.system.run_kind import RunKind, write_kind

__all__ = ["IN_PYTHON", "check_empty", "claim", "name_in_file", "read_json", "run_alone", "to_json"]

IN_PYTHON = "given in Python"
"""Stands in a file for images that it cannot name."""
_MOST_BYTES = 1 << 24


@contextmanager
def run_alone(device: str, folder: Path | None, part: str = "") -> Iterator[None]:
    """Run a workflow: no other thread of this process does, and several processes have joined.

    The message about a stopped part names the ``part``, and the folder of the whole, which must be continued.
    """
    try:
        with take_turns(), joined(device):
            yield
    except SearchInterrupted as stop:
        if folder is None:
            raise
        place = str(stop).partition(";")[0]
        raise SearchInterrupted(f"{place}{part}; continue with `archgrad resume {folder}`.", stop.signal) from stop


def check_empty(folder: Path) -> None:
    """Reject a folder that holds anything."""
    if from_first(lambda: exists(folder) and any(list_folder(folder))):
        raise UserError(
            f"{folder} is not empty; choose a new folder, or continue what is there: `archgrad resume {folder}`."
        )


def claim(folder: Path, kind: RunKind, texts: Mapping[str, str]) -> None:
    """Begin a run directory with these texts by file name; reject a folder that holds anything."""
    check_empty(folder)
    if processes().rank:
        return
    try:
        make_folder(folder)
        write_kind(folder, kind)
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
