"""Random streams named by what they are for, so that a resumed run draws what it would have drawn.

A stream is a function of the run's seed and a path such as ``("augment", epoch, step)``. Nothing is consumed
from a shared state: step 7 of epoch 3 draws the same numbers whether or not the steps before it ran in this process.
"""

from __future__ import annotations

import hashlib

import torch

__all__ = ["generator", "seed_of"]


def seed_of(seed: int, *path: str | int) -> int:
    """Mix a run's seed and a path into a 63-bit seed.

    >>> seed_of(0, "augment", 1) == seed_of(0, "augment", 1) != seed_of(0, "augment", 2)
    True
    """
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *path: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a fresh generator for the stream ``path`` of the run with this seed."""
    return torch.Generator(device).manual_seed(seed_of(seed, *path))
