"""The mixture as each cell reads it: a weight per row and choice, shared by all images or one for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture
from archgrad.errors import UserError, shortened, unknown
from archgrad.supernet.modifiers.edge_weights import EdgeWeights, WeightedRows
from archgrad.system.random_streams import StreamKey

__all__ = ["CellMixture", "ForwardSettings", "Mixture", "split_by_cell"]


@dataclass(frozen=True)
class ForwardSettings:
    """Settings of one forward pass, for all cells: two dropout probabilities and the weight of the auxiliary skips."""

    drop_path: float = 0.0
    skip: float = 0.0
    skip_dropout: float = 0.0

    def __post_init__(self) -> None:  # plain functions, which torch.compile can trace
        _check("drop_path", self.drop_path, "from 0 to less than 1", most=1)
        _check("skip_dropout", self.skip_dropout, "from 0 to less than 1", most=1)
        _check("skip", self.skip, "of 0 or more")


def _check(name: str, value: object, allowed: str, most: float = math.inf) -> None:
    """Raise a UserError unless a setting is a number from 0 to less than ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < most:
        raise UserError(f"{name} is {shortened(value)}; it must be a number {allowed}.")


@dataclass(frozen=True)
class CellMixture:
    """The mixture of one cell: ``weights[row][choice]``, None where a choice is inactive, and its random stream.

    A weight is a scalar, or ``[N]`` where the mixture differs from image to image (``by_image``). ``edges`` holds the
    weight of each row's edge (None where inactive), already multiplied into ``weights``; it is None without edge
    weights. ``drop_path`` is the probability of dropping an operation for an image. ``skip_dropout`` is that of
    dropping a single activation on a skip connection among the choices. ``skip`` is the weight of the auxiliary skip
    connections.
    """

    weights: Sequence[Sequence[Tensor | None]]
    stream: StreamKey
    drop_path: float = 0.0
    edges: Sequence[Tensor | None] | None = None
    by_image: bool = False
    skip: float = 0.0
    skip_dropout: float = 0.0


def split_by_cell(
    shapes: Mapping[str, tuple[int, int, int]],
    mixture: Mixture,
    active: Mapping[str, Tensor] | None,
    seed: int,
    edges: Mapping[str, EdgeWeights] | None = None,
    images: int = 0,
    settings: ForwardSettings | None = None,
) -> dict[str, list[CellMixture]]:
    """Split a mixture into the views of its cells; ``active`` (bool, same shapes) marks the entries to compute.

    ``edges`` names, for each block, the block that holds its edge weights; such a block has no views of its own.
    ``images`` is the batch size.
    """
    active, edges, settings = active or {}, edges or {}, settings or ForwardSettings()
    for what, given in (("the mixture", mixture), ("the active marks", active)):
        if not isinstance(given, Mapping):
            raise UserError(f"{what} must be a dictionary of tensors by block, not {shortened(given)}.")
        for name in given:
            if name not in shapes:
                raise unknown(f"block in {what}:", name, shapes)
    for name, shape in shapes.items():
        _check_weights(name, shape, mixture.get(name), images)
        _check_marks(name, shape, active.get(name))
    weighing = {weights.block for weights in edges.values()}
    rows = {name: _rows(name, edges.get(name), mixture, active) for name in shapes if name not in weighing}
    marks = _read_marks({(name, kind): marks for name, one in rows.items() for kind, marks in one.marks.items()})
    return {name: _views(rows[name], marks, name, (seed, name), settings) for name in rows}


def _check_weights(name: str, shape: tuple[int, int, int], weights: Tensor | None, images: int) -> None:
    found = tuple(weights.shape) if isinstance(weights, Tensor) else "missing" if weights is None else "no tensor"
    by_image = shape[0], images, *shape[1:]
    if found not in (shape, by_image):
        raise UserError(
            f"the mixture of block {name!r} is {found}; it must be a tensor {list(shape)}, "
            f"or {list(by_image)} with a mixture for each of the {images} images."
        )


def _check_marks(name: str, shape: tuple[int, int, int], active: Tensor | None) -> None:
    if active is not None and (tuple(active.shape) != shape or active.dtype != torch.bool):
        raise UserError(
            f"the active marks of block {name!r} are {list(active.shape)} of {active.dtype}; "
            f"they must be booleans of the mixture's shape {list(shape)}, the same for all images."
        )


def _rows(name: str, edges: EdgeWeights | None, mixture: Mixture, active: Mapping[str, Tensor]) -> WeightedRows:
    """Return the weights of one block, times its edge weights if it has any."""
    if edges is None:
        return WeightedRows(mixture[name], active.get(name), None, None)
    return edges.weigh(mixture[name], mixture[edges.block], active.get(name), active.get(edges.block))


def _read_marks(marks: Mapping[tuple[str, str], Tensor | None]) -> dict[tuple[str, str], list[bool] | None]:
    """Read the marks of all blocks at once: on an accelerator every read waits for all work before it."""
    known = {key: one.flatten() for key, one in marks.items() if one is not None}
    read = torch.cat(list(known.values())).tolist() if known else []
    found: dict[tuple[str, str], list[bool] | None] = dict.fromkeys(marks)
    for key, one in known.items():
        found[key], read = read[: len(one)], read[len(one) :]
    return found


def _views(
    block: WeightedRows,
    marks: Mapping[tuple[str, str], list[bool] | None],
    name: str,
    stream: tuple[int, str],
    settings: ForwardSettings,
) -> list[CellMixture]:
    """Split the weights of one block by cell, and those of its edges."""
    cells, rows, choices = block.weights.shape[0], block.weights.shape[-2], block.weights.shape[-1]
    row_at = _grouped(_entries(block.weights, marks[name, "weights"]), choices)
    edges = None if block.edges is None else _grouped(_entries(block.edges, marks[name, "edges"]), rows)
    return [
        CellMixture(
            row_at[cell * rows : (cell + 1) * rows],
            (*stream, cell),
            settings.drop_path,
            None if edges is None else edges[cell],
            block.weights.dim() == 4,
            settings.skip,
            settings.skip_dropout,
        )
        for cell in range(cells)
    ]


def _grouped(entries: list[Tensor | None], size: int) -> list[list[Tensor | None]]:
    return [entries[start : start + size] for start in range(0, len(entries), size)]


def _entries(weights: Tensor, active: list[bool] | None) -> list[Tensor | None]:
    """List the entries of ``[cells, rows, choices]`` in order: scalars, or ``[N]``; None for inactive ones."""
    by_image = weights.dim() == 4
    entries: list[Tensor | None] = list(
        weights.movedim(1, -1).flatten(0, 2).unbind() if by_image else weights.flatten().unbind()
    )
    if active is None:
        return entries
    return [entry if on else None for entry, on in zip(entries, active, strict=True)]
