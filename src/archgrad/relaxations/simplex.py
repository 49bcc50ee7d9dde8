"""Architecture parameters that are the mixture itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.errors import check_bool
from archgrad.relaxations.base import Domain, Relaxation, Relaxed
from archgrad.spaces import DecisionBlock
from archgrad.tensors import Alpha, Probabilities

__all__ = ["Simplex"]


@dataclass(frozen=True)
class Simplex(Relaxation):
    """p = θ: every row of θ lies on the simplex of the choices it has, and starts in its middle (GAEA, Section 3).

    ``skip_zero`` leaves out what has a weight of exactly 0: it costs nothing, and it gets no gradient to come back by.
    """

    domain: ClassVar[Domain] = "simplex"

    skip_zero: bool = False

    def __post_init__(self) -> None:
        check_bool("relaxation.skip_zero", self.skip_zero)

    @property
    def sparse(self) -> bool:
        """Whether weights of 0 are skipped."""
        return self.skip_zero

    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Weigh all choices of a row alike; nothing is drawn."""
        return Alpha({block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in blocks})

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return the parameters themselves, for the choices that a row has."""
        return Probabilities(
            {block.name: alpha[block.name] * block.mask.to(alpha[block.name].device) for block in blocks}
        )

    def relax(
        self, blocks: Sequence[DecisionBlock], alpha: Alpha, noise: dict[str, Tensor] | None, progress: float
    ) -> Relaxed:
        """Give every cell the parameters, and mark what is not 0 if the rest is to be skipped."""
        mixture = super().relax(blocks, alpha, noise, progress).mixture
        return Relaxed(mixture, {name: _present(value) for name, value in mixture.items()} if self.skip_zero else None)


def _present(weights: Tensor) -> Tensor:
    """Mark ``[cells, rows, choices]`` where a weight is not 0, for any image if each has its own."""
    marks = weights.detach() != 0
    return marks if marks.dim() == 3 else marks.any(1)
