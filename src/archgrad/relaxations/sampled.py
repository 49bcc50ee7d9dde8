"""The base of relaxations that draw their mixture."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Mixture, check_tensors
from archgrad.errors import UserError
from archgrad.relaxations.base import Relaxation, Relaxed, expand_to_cells, shapes_of
from archgrad.spaces import DecisionBlock

__all__ = ["Sampled"]


class Sampled(Relaxation):
    """α → a random mixture of operations, a pure function of α and the noise.

    ``per_cell`` draws for each cell separately; otherwise the cells of a block share one draw, as published. Edge
    weights are not drawn: they are the probabilities of the edges.
    """

    sampled: ClassVar[bool] = True
    per_cell: bool

    @abstractmethod
    def draw(self, block: DecisionBlock, generator: torch.Generator) -> Tensor:
        """Draw the noise of one block for one step."""

    @abstractmethod
    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return the mixture of a block ``[cells or 1, rows, choices]``, differentiable in ``alpha``."""

    def active(self, mixture: dict[str, Tensor]) -> dict[str, Tensor] | None:
        """Mark the entries to compute in the drawn blocks: what was drawn if it is ``sparse``, else None for all."""
        return {name: value.detach() != 0 for name, value in mixture.items()} if self.sparse else None

    def copies(self, block: DecisionBlock) -> int:
        """Return the number of draws of a block."""
        return block.cells if self.per_cell else 1

    def noise(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> dict[str, Tensor]:
        """Draw for all blocks of operations, in their order."""
        return {block.name: self.draw(block, generator) for block in blocks if block.kind == "operation"}

    def relax(
        self, blocks: Sequence[DecisionBlock], alpha: Alpha, noise: dict[str, Tensor] | None, progress: float
    ) -> Relaxed:
        """Sample the operations; edge weights are probabilities."""
        check_tensors("alpha", alpha, shapes_of(blocks))
        weighted = [block for block in blocks if block.kind == "edge"]
        mixture = expand_to_cells(weighted, self.probabilities(weighted, alpha))
        drawn = {}
        for block in (block for block in blocks if block.kind == "operation"):
            self._check(block, alpha[block.name], noise)
            one = self.sample(block, alpha[block.name], (noise or {})[block.name], progress)
            drawn[block.name] = one.expand(block.cells, -1, -1)
        mixture |= drawn
        return Relaxed(Mixture({block.name: mixture[block.name] for block in blocks}), self.active(drawn))

    def _check(self, block: DecisionBlock, alpha: Tensor, noise: dict[str, Tensor] | None) -> None:
        who = type(self).__name__
        if alpha.dim() != 2:
            raise UserError(
                f"{who} was given architecture parameters {list(alpha.shape)} for block {block.name!r}, one for each "
                f"image, but it draws one mixture for all images; for gradients per image use a deterministic "
                f"relaxation: softmax or simplex."
            )
        if not isinstance(noise, dict) or block.name not in noise:
            raise UserError(f"{who} samples block {block.name!r}, but no noise was given; draw it by noise(blocks, …).")
