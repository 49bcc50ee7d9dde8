"""What the cells of a supernet want of the architecture they share, each for itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean

from torch import Tensor

from archgrad.diagnostics.architecture import SKIP
from archgrad.regularizers.layers import aligned_blocks, alignment
from archgrad.spaces import DecisionBlock

__all__ = ["Agreement", "LayerMeasure"]

_CONVOLUTION = "conv_3x3"


class LayerMeasure(ABC):
    """Measured wherever the architecture moves, from the gradients that move it; the record has the epoch's mean.

    ``every`` is for steps at which it does not move, such as those of a warm-up: how many of an epoch lie between two
    gradients that are computed for the measurement alone.
    """

    every: int

    @abstractmethod
    def __call__(self, blocks: Sequence[DecisionBlock], mixture_gradients: Mapping[str, Tensor]) -> Mapping[str, float]:
        """Measure ∂L/∂p of every cell, ``{block: [cells, rows, choices]}``."""


@dataclass(frozen=True)
class Agreement(LayerMeasure):
    """Λ and Λ± (Λ-DARTS, Eq. 5 and 7), and what the first and the last cells want (Fig. 2).

    ``skip_gradient_first`` is the derivative by the weight of the skip connection, meant over the edges that offer it
    and summed over the first third of the cells; a negative one makes it grow. ``last`` is of the last third, ``conv``
    of all convolutions of 3×3. Blocks are those that layer alignment would align.
    """

    every: int = 64

    def __call__(self, blocks: Sequence[DecisionBlock], mixture_gradients: Mapping[str, Tensor]) -> dict[str, float]:
        """Return ``alignment``, ``sign_alignment`` and the gradients, of a space in which cells share blocks."""
        shared = [block for block in aligned_blocks(blocks) if block.name in mixture_gradients]
        if not shared:
            return {}
        measured = {
            "alignment": alignment(mixture_gradients, shared, "cosine").item(),
            "sign_alignment": alignment(mixture_gradients, shared, "sign").item(),
        }
        for kind in ("skip", "conv"):
            by_cell = [
                wish for block in shared if (wish := _wishes(mixture_gradients[block.name], block, kind)) is not None
            ]
            if by_cell:
                measured[f"{kind}_gradient_first"] = mean(wish[: _third(wish)].sum().item() for wish in by_cell)
                measured[f"{kind}_gradient_last"] = mean(wish[-_third(wish) :].sum().item() for wish in by_cell)
        return measured


def _wishes(mixture_gradients: Tensor, block: DecisionBlock, kind: str) -> Tensor | None:
    """Return the mean gradient of a kind of operation in every cell ``[cells]``; None if no row offers it."""
    places = _places(block, kind)
    if not places:
        return None
    rows, choices = zip(*places, strict=True)
    return mixture_gradients[:, list(rows), list(choices)].double().mean(1)


@lru_cache(maxsize=64)
def _places(block: DecisionBlock, kind: str) -> tuple[tuple[int, int], ...]:
    """Return (row, choice) of every skip connection, or of every convolution of 3×3."""
    return tuple(
        (row, choice)
        for row, offered in enumerate(block.rows)
        for choice, name in enumerate(offered.choices)
        if (name == SKIP if kind == "skip" else name.endswith(_CONVOLUTION))
    )


def _third(cells: Tensor) -> int:
    """Return a third of the number of cells: five of fifteen, as in the paper; at least one."""
    return max(1, len(cells) // 3)
