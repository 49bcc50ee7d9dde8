"""How far the cells of a supernet agree on the architecture that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean
from typing import ClassVar

from torch import Tensor

from archgrad.callbacks.base import Callback, Measures
from archgrad.parts.fields import Count, Probability
from archgrad.regularizers.gradient_alignment import aligned_blocks, alignment
from archgrad.spaces import SKIP, DecisionBlock
from archgrad.system.devices import widened

__all__ = ["LayerAgreement"]

_CONVOLUTION = "conv_3x3"


@dataclass(frozen=True)
class LayerAgreement(Callback):
    """Measure Λ and Λ± (Λ-DARTS, Eq. 5 and 7), and the gradients of the first and the last cells (Fig. 2 and 7).

    ``skip_gradient_first`` is dL2/dp of the skip connection, averaged over the edges that offer it and summed over the
    first third of the cells. A negative value makes the skip connection grow. ``last`` is the last third of the cells,
    ``conv`` all 3×3 convolutions. The blocks are those that layer alignment would align.

    These gradients are exponential averages since the first measurement, with ``decay`` per step as in the paper's
    figures. A measurement in every ``every``-th step counts for that many steps. The average starts at 0 and is
    corrected for that: without the correction it would show only 1 − decayⁿ of the gradient after n steps, a third
    after 400; after some thousand steps there is no difference. Λ and Λ± are means of each epoch.
    """

    kind: ClassVar[str] = "layer-agreement"

    every: Count = 64
    decay: Probability = 0.999

    @property
    def decays(self) -> Mapping[str, float]:
        """The gradients, all with ``decay``."""
        return {f"{kind}_gradient_{end}": self.decay for kind in ("skip", "conv") for end in ("first", "last")}

    def measure_gradients(self, blocks: Sequence[DecisionBlock], gradients: Mapping[str, Tensor]) -> Measures:
        """Return ``alignment``, ``sign_alignment`` and the gradients; nothing if no two cells share a block."""
        shared = [block for block in aligned_blocks(blocks) if block.name in gradients]
        if not shared:
            return {}
        measured = {
            "alignment": alignment(gradients, shared, "cosine").item(),
            "sign_alignment": alignment(gradients, shared, "sign").item(),
        }
        for kind in ("skip", "conv"):
            by_block = (_cell_gradients(gradients[block.name], block, kind) for block in shared)
            found = [one for one in by_block if one is not None]
            if found:
                measured[f"{kind}_gradient_first"] = mean(one[: _third(one)].sum().item() for one in found)
                measured[f"{kind}_gradient_last"] = mean(one[-_third(one) :].sum().item() for one in found)
        return measured


def _cell_gradients(gradients: Tensor, block: DecisionBlock, kind: str) -> Tensor | None:
    """Return the mean gradient of a kind of operation in every cell ``[cells]``; None if no row offers it."""
    places = _places(block, kind)
    if not places:
        return None
    rows, choices = zip(*places, strict=True)
    return widened(gradients[:, list(rows), list(choices)]).mean(1)


@lru_cache(maxsize=64)
def _places(block: DecisionBlock, kind: str) -> tuple[tuple[int, int], ...]:
    """Return (row, choice) of every skip connection, or of every 3×3 convolution."""
    return tuple(
        (row, choice)
        for row, offered in enumerate(block.rows)
        for choice, name in enumerate(offered.choices)
        if (name == SKIP if kind == "skip" else name.endswith(_CONVOLUTION))
    )


def _third(cells: Tensor) -> int:
    """Return a third of the number of cells, at least one; the paper takes five of fifteen."""
    return max(1, len(cells) // 3)
