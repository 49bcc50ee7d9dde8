"""Keep the probability of every choice in every epoch, for pictures of a search."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from archgrad.callbacks.base import Callback, Measures
from archgrad.callbacks.search import SearchView
from archgrad.diagnostics import Snapshot
from archgrad.errors import ArchgradError
from archgrad.system.files import exists, read_text, write_text

__all__ = ["MIXTURE", "MixtureFile"]

MIXTURE = "mixture.json"
"""The file in the run directory: ``choices`` are block, row and choice of each number, ``epochs`` lists of numbers."""
_LONGEST = 100_000_000


@dataclass(frozen=True)
class MixtureFile(Callback):
    """Write the probability of each choice on each edge, to four digits, into ``mixture.json`` of the run directory.

    Each stage of a search in stages writes into its own folder.
    """

    kind: ClassVar[str] = "mixture"
    only_writes: ClassVar[bool] = True

    def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> Measures:
        """Append the epoch, in the place of what a killed process has left of it; measure nothing."""
        if search.folder is None:
            return {}
        names = [
            (block.name, row.name, one) for block in snapshot.space.blocks for row in block.rows for one in row.choices
        ]
        path, before = search.folder / MIXTURE, len(search.history) - 1
        epochs = [*_earlier(path, [*map(list, names)])[:before], _numbers(snapshot)]
        with suppress(OSError):  # the records come next, and tell the user that the disk is full
            write_text(path, json.dumps({"choices": names, "epochs": epochs}, separators=(",", ":")) + "\n")
        return {}


def _numbers(snapshot: Snapshot) -> list[float]:
    """Return the probabilities of all rows of all blocks, one after the other."""
    return [
        round(weight, 4)
        for block in snapshot.space.blocks
        for row, own in zip(block.rows, snapshot.probabilities[block.name].tolist(), strict=True)
        for weight in own[: len(row.choices)]
    ]


def _earlier(path: Path, names: list[list[str]]) -> list[Any]:
    """Return the epochs in the file; none if it is not there, damaged, or of other choices."""
    try:
        content = json.loads(read_text(path, "mixture", _LONGEST)) if exists(path) else {}
        return list(content["epochs"]) if content.get("choices") == names else []
    except (ArchgradError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
