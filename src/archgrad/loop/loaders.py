"""The batches of a search: which images train the weights, train the architecture, and measure both."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from archgrad.config.resolve import ResolvedSearch
from archgrad.data import Batch, Data, Loader, Split, normalization_of, split
from archgrad.distributed.processes import processes
from archgrad.errors import UserError
from archgrad.system.warn_once import warn_once

__all__ = ["StepBatches", "loaders_of"]

_log = logging.getLogger("archgrad")


def loaders_of(
    search: ResolvedSearch, data: Data, device: torch.device
) -> tuple[Loader, Loader, Loader, Loader | None]:
    """Return the loaders for weights, architecture, evaluation and held-out images; the last two do not augment.

    Architectures are evaluated on the images that train the architecture, or in a single-level search on those held
    out, if there are any. The held-out images measure every epoch; None if there are none. All loaders normalize by the
    training images. ``workers`` processes read each part of the data, if it is not in memory.
    """
    config, seed, batch_size = search.config, int(search.config.seed), search.training.batch_size
    fractions = config.split_fractions(search.method.schedule.level)
    parts = split(data.targets, fractions, seed, config.held_out, data.classes)
    _check_batch_size(config.batch_size, parts, fractions is None)
    if config.workers and not data.lazy:
        warn_once(_log, "the data is in memory, so no worker processes are started to read it.")
    normalization = normalization_of(data, parts.weights)

    def loader(indices: Tensor, stream: str, size: int = batch_size) -> Loader:
        augmentation = data.augmentation if stream in ("weights", "architecture") else None
        shard = (*processes(),)
        made = Loader(data, indices, size, normalization, augmentation, seed, stream, device, config.workers, shard)
        if made.batch_size < processes().size:
            what = "evaluation" if stream == "judge" else stream
            raise UserError(
                f"the batches of {made.batch_size} images ({what}) are smaller than the number of processes, "
                f"{processes().size}; give a larger batch_size, more data, or fewer processes."
            )
        return made

    weights, architecture = loader(parts.weights, "weights"), loader(parts.architecture, "architecture")
    if not len(parts.held_out):
        return weights, architecture, loader(parts.architecture, "judge"), None
    even, single_level = _even(len(parts.held_out), batch_size), fractions is None
    evaluation = loader(parts.held_out, "judge", even) if single_level else loader(parts.architecture, "judge")
    return weights, architecture, evaluation, loader(parts.held_out, "held-out", even)


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


def _check_batch_size(batch_size: int | None, parts: Split, single_level: bool) -> None:
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
