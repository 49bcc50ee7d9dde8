"""The loaders of a search: which images train the weights, train the architecture, and measure both."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.data import ImageData, Loader, Split, measure
from archgrad.errors import UserError

__all__ = ["Loaders", "check_batch_size"]


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
        cls, data: ImageData, parts: Split, single_level: bool, batch_size: int, seed: int, device: torch.device
    ) -> Loaders:
        """Build the loaders of these parts of the data, all with the normalization of the training images."""
        normalization = measure(data, parts.weights)
        holds_out = len(parts.held_out) > 0

        def loader(indices: Tensor, stream: str, size: int = batch_size) -> Loader:
            augmentation = data.augmentation if stream in ("weights", "architecture") else None
            return Loader(data, indices, size, normalization, augmentation, seed, stream, device)

        even = _even(len(parts.held_out), batch_size) if holds_out else batch_size
        evaluates_held_out = holds_out and single_level
        return cls(
            loader(parts.weights, "weights"),
            loader(parts.architecture, "architecture"),
            loader(parts.held_out, "judge", even) if evaluates_held_out else loader(parts.architecture, "judge"),
            loader(parts.held_out, "held-out", even) if holds_out else None,
        )


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
