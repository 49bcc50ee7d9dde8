"""The batches of a search: which images train the weights, train the architecture, and measure both."""

from __future__ import annotations

import logging
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.data import Batch, Data, Loader, Split, normalization_of
from archgrad.distributed.processes import processes
from archgrad.errors import UserError
from archgrad.system.warn_once import warn_once

__all__ = ["Loaders", "StepBatches", "check_batch_size"]

_log = logging.getLogger("archgrad")


class Loaders(NamedTuple):
    """The loaders of a search; ``evaluation`` and ``held_out`` do not augment.

    ``evaluation`` has images to evaluate architectures on: those that train the architecture, or in a single-level
    search those held out, if there are any. ``held_out`` has those that measure every epoch, None if there are none.
    """

    weights: Loader
    architecture: Loader
    evaluation: Loader
    held_out: Loader | None

    @classmethod
    def of(
        cls,
        data: Data,
        parts: Split,
        single_level: bool,
        batch_size: int,
        seed: int,
        device: torch.device,
        workers: int = 0,
    ) -> Loaders:
        """Build the loaders of these parts of the data, all with the normalization of the training images.

        ``workers`` processes read each part, if the data is not in memory.
        """
        if workers and not data.lazy:
            warn_once(_log, "the data is in memory, so no worker processes are started to read it.")
        normalization = normalization_of(data, parts.weights)
        holds_out = len(parts.held_out) > 0

        def loader(indices: Tensor, stream: str, size: int = batch_size) -> Loader:
            augmentation = data.augmentation if stream in ("weights", "architecture") else None
            shard = (*processes(),)
            return Loader(data, indices, size, normalization, augmentation, seed, stream, device, workers, shard)

        even = _even(len(parts.held_out), batch_size) if holds_out else batch_size
        evaluates_held_out = holds_out and single_level
        loaders = cls(
            loader(parts.weights, "weights"),
            loader(parts.architecture, "architecture"),
            loader(parts.held_out, "judge", even) if evaluates_held_out else loader(parts.architecture, "judge"),
            loader(parts.held_out, "held-out", even) if holds_out else None,
        )
        loaders._check_processes()
        return loaders

    def _check_processes(self) -> None:
        """Reject batches that have fewer images than there are processes."""
        count = processes().size
        for what, loader in self._asdict().items():
            if loader is not None and loader.batch_size < count:
                raise UserError(
                    f"the batches of {loader.batch_size} images ({what.replace('_', '-')}) are smaller than the number "
                    f"of processes, {count}; give a larger batch_size, more data, or fewer processes."
                )


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


def check_batch_size(batch_size: int | None, parts: Split, single_level: bool) -> None:
    """Reject a batch size larger than the data; a space's own batch size is cut to small data silently."""
    held_out = f"; {len(parts.held_out)} are held out (held_out)" if single_level and len(parts.held_out) else ""
    for name, part in (("weights", parts.weights), ("architecture", parts.architecture)):
        if batch_size is not None and batch_size > len(part):
            raise UserError(
                f"batch_size is {batch_size}, but only {len(part)} images train the {name}{held_out}; "
                f"it must be at most {min(len(parts.weights), len(parts.architecture))}, or give more data."
            )


def _even(count: int, most: int) -> int:
    """Return the size of batches that divide so many images evenly, none of them larger than ``most``.

    >>> _even(180, 64)
    60
    """
    return max(count // -(-count // most), 1)
