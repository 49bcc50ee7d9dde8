"""How well the gradients of a supernet's cells agree: Λ and its derivatives (Λ-DARTS, Sections 3.2 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from archgrad.errors import UserError, unknown
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import widened

__all__ = ["Kind", "aligned_blocks", "alignment", "directions", "pairs"]

Kind = Literal["cosine", "sign"]
"""Λ (Eq. 5) or Λ± (Eq. 7)."""

_VANISHED = 1e-12
"""A gradient that is this much shorter than the longest of its block has no reliable direction."""
_NOTHING = 1e-20


def aligned_blocks(blocks: Sequence[DecisionBlock], names: Sequence[str] = ()) -> tuple[DecisionBlock, ...]:
    """Return the blocks of these names; by default all blocks of operations that two cells share, except ``reduce``.

    The paper leaves reduction cells out, because they seldom collapse (Appendix A.9.2).
    """
    by_name = {block.name: block for block in blocks}
    if len(set(names)) < len(names):
        raise UserError(f"the blocks to align are {', '.join(names)}; name each of them once.")
    for name in names:
        if name not in by_name:
            raise unknown("block to align:", name, by_name)
        if by_name[name].cells < 2:
            raise UserError(
                f"block {name!r} is used by one cell only, so there is nothing to align; leave it out, or search with "
                f"more cells."
            )
    shared = [block for block in blocks if block.kind == "operation" and block.cells > 1 and block.name != "reduce"]
    return tuple(by_name[name] for name in names) if names else tuple(shared)


def pairs(blocks: Sequence[DecisionBlock]) -> int:
    """Return the number of pairs of cells that share a block, Σ L·(L − 1)/2."""
    return sum(block.cells * (block.cells - 1) // 2 for block in blocks)


def alignment(gradients: Mapping[str, Tensor], blocks: Sequence[DecisionBlock], kind: Kind) -> Tensor:
    """Return the mean agreement of the gradients ``[cells, rows, choices]`` over all pairs of cells of a block.

    ``cosine``: Λ = mean of g·g′/(‖g‖‖g′‖), which is 1 where all gradients have one direction. ``sign``:
    Λ± = mean of g·g′/(|g|·|g′|), which is 1 where all have the same signs. A pair with a zero gradient counts as 0. The
    result is differentiable in the gradients.
    """
    sums = [_agreement(_units(gradients[block.name]), kind).sum() / 2 for block in blocks]
    return torch.stack(sums).sum() / pairs(blocks)


def directions(gradients: Mapping[str, Tensor], blocks: Sequence[DecisionBlock], kind: Kind) -> dict[str, Tensor]:
    """Return Δ = {block: δ ``[cells, rows, choices]``}, the derivative of Σ over pairs (Eq. 10 and 12), in float64.

    ``cosine``: δ_ℓ = Σ (I − uuᵀ)·u′/‖g‖ with u = g/‖g‖. ``sign``: δ_ℓ = Σ (g′ − Λ±(g, g′)·sign(g)⊙|g′|)/(|g|·|g′|).
    """
    at = {block.name: widened(gradients[block.name].detach()).requires_grad_() for block in blocks}
    with torch.enable_grad():
        total = alignment(at, blocks, kind) * pairs(blocks)
    return dict(zip(at, torch.autograd.grad(total, [*at.values()]), strict=True))


def _units(gradient: Tensor) -> Tensor:
    """Return unit vectors ``[cells, n]``; a zero gradient gives a zero vector."""
    flat = widened(gradient).flatten(1)
    squares = flat.square().sum(1, keepdim=True)
    floor = (_VANISHED * squares.detach().max().sqrt()).clamp_min(_NOTHING) ** 2
    real = squares > floor
    norms = squares.where(real, torch.ones_like(squares)).sqrt()
    return flat * real / norms


def _agreement(units: Tensor, kind: Kind) -> Tensor:
    """Return the agreement of all pairs of cells ``[cells, cells]``, with 0 on the diagonal."""
    products = units @ units.T
    if kind == "cosine":
        return _between_cells(products)
    overlap = units.abs() @ units.abs().T
    real = overlap > _VANISHED
    return _between_cells(products / overlap.where(real, torch.ones_like(overlap)) * real)


def _between_cells(table: Tensor) -> Tensor:
    return table * (1 - torch.eye(len(table), dtype=table.dtype, device=table.device))
