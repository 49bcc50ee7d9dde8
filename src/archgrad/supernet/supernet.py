"""The continuous network: ``supernet(x, mixture)``."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from archgrad.supernet.mixture import Mixture, split_by_cell

__all__ = ["Supernet"]


class Supernet(nn.Module):
    """All architectures of a space at once, a pure function of its weights, the mixture and x.

    It holds no architecture parameters and no running statistics, so it can be called through
    ``torch.func.functional_call``, differentiated twice, and given a different mixture in every cell.

    ``body`` maps ``(x, {block: [CellMixture]})`` to logits; ``shapes`` are the mixture's shapes
    ``{block: (cells, rows, choices)}``.
    """

    def __init__(self, body: nn.Module, shapes: Mapping[str, tuple[int, int, int]]) -> None:
        super().__init__()
        self.body = body
        self.shapes = dict(shapes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(
        self, x: Tensor, mixture: Mixture, *, active: Mapping[str, Tensor] | None = None, seed: int = 0
    ) -> Tensor:
        """Return logits ``[N, classes]`` for images ``[N, C, H, W]``.

        ``mixture`` maps each block to ``[cells, rows, choices]``. ``active`` (bool, same shapes) marks the entries to
        compute: the others count as zero, cost nothing and receive no gradient. ``seed`` fixes the noise of
        operations that draw any.
        """
        views = split_by_cell(self.shapes, mixture, active, seed)
        logits: Tensor = self.body(_in_best_layout(x), views)
        return logits


def _in_best_layout(x: Tensor) -> Tensor:
    """Channels-last on the CPU, where it makes every kernel of the supernet at least as fast."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x
