"""Architecture parameters that are the mixture itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Probabilities, check_tensors
from archgrad.parts.fields import checked
from archgrad.relaxations.base import Domain, Relaxation, Relaxed, shapes_of
from archgrad.relaxations.decided_rows import present
from archgrad.spaces import DecisionBlock

__all__ = ["Simplex"]


@dataclass(frozen=True)
class Simplex(Relaxation):
    """p = θ: every row of θ is on the simplex of its choices, and starts uniform (GAEA, Section 3.3).

    ``skip_zero`` skips choices of weight exactly 0: they cost nothing, but get no gradient to recover by.
    """

    domain: ClassVar[Domain] = "simplex"

    skip_zero: bool = False

    @property
    def sparse(self) -> bool:
        """Whether weights of 0 are skipped."""
        return self.skip_zero

    @checked
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Return uniform rows; nothing is drawn."""
        return Alpha({block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in blocks})

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return θ itself, 0 where a row has no choice."""
        check_tensors("alpha", alpha, shapes_of(blocks))
        return Probabilities(
            {block.name: alpha[block.name] * block.mask_on(alpha[block.name].device) for block in blocks}
        )

    def relax(
        self, blocks: Sequence[DecisionBlock], alpha: Alpha, noise: dict[str, Tensor] | None, progress: float
    ) -> Relaxed:
        """Give θ to every cell; with ``skip_zero``, mark the entries that are not 0."""
        mixture = super().relax(blocks, alpha, noise, progress).mixture
        return Relaxed(mixture, {name: present(value) for name, value in mixture.items()} if self.skip_zero else None)
