"""The mixture as a supernet reads it: one scalar tensor per cell, row and choice, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import UserError, unknown
from archgrad.randomness import Path

__all__ = ["CellMixture", "Mixture", "split_by_cell"]

Mixture = Mapping[str, Tensor]
"""Block name → weights ``[cells, rows, choices]``."""


@dataclass(frozen=True)
class CellMixture:
    """What one cell sees: ``weights[row][choice]``, None where the choice is inactive, and its random stream.

    ``drop_path`` is the probability with which each operation is dropped for an image.
    """

    weights: Sequence[Sequence[Tensor | None]]
    stream: Path
    drop_path: float = 0.0


def split_by_cell(
    shapes: Mapping[str, tuple[int, int, int]],
    mixture: Mixture,
    active: Mapping[str, Tensor] | None,
    seed: int,
    drop_path: float = 0.0,
) -> dict[str, list[CellMixture]]:
    """Cut a mixture into the views of its cells; ``active`` (bool, same shapes) marks what is to be computed."""
    for what, given in (("the mixture", mixture), ("the active marks", active or {})):
        for name in given:
            if name not in shapes:
                raise unknown(f"block in {what}:", name, shapes)
    views = {}
    for name, shape in shapes.items():
        if name not in mixture or tuple(mixture[name].shape) != shape:
            found = tuple(mixture[name].shape) if name in mixture else "missing"
            raise UserError(f"the mixture of block {name!r} is {found}; it must be a tensor {list(shape)}.")
        marks = None if active is None or name not in active else active[name]
        views[name] = _split_block(name, mixture[name], marks, seed, drop_path)
    return views


def _split_block(name: str, weights: Tensor, active: Tensor | None, seed: int, drop_path: float) -> list[CellMixture]:
    cells, rows, choices = weights.shape
    if active is not None and (active.shape != weights.shape or active.dtype != torch.bool):
        raise UserError(
            f"the active marks of block {name!r} are {list(active.shape)} of {active.dtype}; "
            f"they must be booleans of the mixture's shape {list(weights.shape)}."
        )
    entries: list[Tensor | None] = list(weights.flatten().unbind())
    if active is not None:
        entries = [entry if on else None for entry, on in zip(entries, active.flatten().tolist(), strict=True)]
    row_at = [entries[start : start + choices] for start in range(0, len(entries), choices)]
    return [
        CellMixture(row_at[cell * rows : (cell + 1) * rows], (seed, name, cell), drop_path) for cell in range(cells)
    ]
