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
from archgrad.errors import ArchgradError, UserError
from archgrad.spaces import DecisionBlock
from archgrad.system.files import exists, read_text, write_text

__all__ = ["MIXTURE", "MixtureFile", "read_mixture"]

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
            (block.name, row.name, one) for block in _blocks(snapshot) for row in block.rows for one in row.choices
        ]
        path, before = search.folder / MIXTURE, len(search.history) - 1
        epochs = [*_earlier(path, [*map(list, names)])[:before], _numbers(snapshot)]
        with suppress(OSError):  # the records come next, and tell the user that the disk is full
            write_text(path, json.dumps({"choices": names, "epochs": epochs}, separators=(",", ":")) + "\n")
        return {}


def read_mixture(path: Path) -> tuple[list[tuple[str, ...]], list[list[float]]]:
    """Return block, row and choice of each number, and the numbers of each epoch, of a finished search."""
    try:
        content = json.loads(read_text(path, "mixture of a search", _LONGEST))
        choices = [tuple(map(str, one)) for one in content["choices"]]
        epochs = [list(map(float, one)) for one in content["epochs"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(
            f"{path} has no mixture of a search ({error}); run the search again, with its standard callbacks."
        ) from error
    if not epochs or any(len(one) != len(choices) for one in epochs):
        raise UserError(f"{path} is damaged: each epoch must have {len(choices)} numbers; run the search again.")
    return choices, epochs


def _blocks(snapshot: Snapshot) -> list[DecisionBlock]:
    """Return the blocks of the space, then the edge weights of those that have them."""
    blocks = snapshot.space.blocks
    return [*blocks, *(block.edges for block in blocks if block.has_edge_weights(snapshot.probabilities))]


def _numbers(snapshot: Snapshot) -> list[float]:
    """Return the probabilities of all rows of all blocks, one after the other."""
    return [
        round(weight, 4)
        for block in _blocks(snapshot)
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
