"""Random streams named by what they are for, so that a resumed run draws what it would have drawn.

A stream is a function of the run's seed and a path such as ``("augment", epoch, step)``. Nothing is consumed
from a shared state: step 7 of epoch 3 draws the same numbers whether or not the steps before it ran in this process.
"""

from __future__ import annotations

import hashlib

import torch

__all__ = ["Path", "generator", "seed_of"]

Path = tuple[int | str, ...]
"""A seed and what it is used for."""


def seed_of(*path: int | str) -> int:
    """Mix a run's seed and a path into a 63-bit seed; ``("a", "b")`` and ``("a/b",)`` are different paths.

    >>> seed_of(0, "augment", 1) == seed_of(0, "augment", 1) != seed_of(0, "augment", 2)
    True
    """
    text = "/".join(str(part).replace("%", "%25").replace("/", "%2F") for part in path)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*path: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a fresh generator for the stream ``path`` of the run with this seed."""
    return torch.Generator(device).manual_seed(seed_of(*path))
