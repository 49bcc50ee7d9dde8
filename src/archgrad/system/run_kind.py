"""What a run directory is, in one field: ``{"kind": "search"}`` in ``run.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, get_args

from archgrad.errors import UserError, shortened, unknown
from archgrad.system.files import exists, read_text, shown_path, write_text

__all__ = ["RUN_FILE", "RunKind", "read_kind", "write_kind"]

RunKind = Literal["search", "blackbox", "training", "selection", "fit", "study"]
RUN_FILE = "run.json"
_LONGEST = 10_000


def write_kind(folder: Path, kind: RunKind) -> None:
    """Say in a run directory what it is: the first file that a run writes."""
    write_text(folder / RUN_FILE, json.dumps({"kind": kind}) + "\n")


def read_kind(folder: Path) -> RunKind:
    """Return what a run directory is; raise a UserError if it does not say so."""
    path = folder / RUN_FILE
    if not exists(folder):
        raise UserError(f"there is no folder {shown_path(folder)}; give the run directory of something that was begun.")
    if not exists(path):
        if folder.name.startswith("stage-") and exists(folder.parent / RUN_FILE):
            raise UserError(f"{folder} is one stage of the run in {folder.parent}; give that directory instead.")
        raise UserError(f"{str(folder)[:150]} is not a run directory: it has no {RUN_FILE}. Start a new run.")
    try:
        kind = json.loads(read_text(path, "description of the run", _LONGEST))["kind"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f'{path} is damaged: it must hold {{"kind": …}}; restore it from a copy.') from None
    if not isinstance(kind, str):
        raise UserError(f"{path} names the kind {shortened(kind)}; it must be a word.")
    if kind not in get_args(RunKind):
        raise unknown(f"kind of run in {path}:", kind, get_args(RunKind))
    return kind  # type: ignore[return-value]
