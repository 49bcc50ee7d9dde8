"""The batches of one step of a search."""

from __future__ import annotations

from archgrad.data import Batch, Loader

__all__ = ["StepBatches"]


class StepBatches:
    """The batches of one step, each drawn on first use.

    The k-th inner batch is that of the weight step k steps later; ``inner_steps`` weight steps share an outer batch.
    """

    def __init__(self, weight_loader: Loader, arch_loader: Loader, index: int, inner_steps: int = 1) -> None:
        self._loaders, self._index, self._inner_steps = (weight_loader, arch_loader), index, inner_steps
        self._inner: dict[int, Batch] = {}
        self._outer: Batch | None = None

    def inner(self, step: int) -> Batch:
        """Return a batch that trains the weights."""
        if step not in self._inner:
            self._inner[step] = self._loaders[0].batch(self._index + step)
        return self._inner[step]

    def outer(self) -> Batch:
        """Return the batch that trains the architecture."""
        if self._outer is None:
            self._outer = self._loaders[1].batch(self._index // self._inner_steps)
        return self._outer
