"""Named random streams: a resumed run draws the same numbers as an uninterrupted one.

A stream is a function of the run's seed and a key such as ``("augment", epoch, step)``. No state is shared: step 7 of
epoch 3 draws the same numbers whether or not the steps before it ran in this process.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["SavedRandomState", "StreamKey", "generator", "kept_random_state", "seed_of", "seed_random_state"]

StreamKey = tuple[int | str, ...]
"""A seed, then the words and numbers that name its use."""


def seed_of(*key: int | str) -> int:
    """Mix a run's seed and a key into a 63-bit seed; ``("a", "b")`` and ``("a/b",)`` are different keys.

    >>> seed_of(0, "augment", 1) == seed_of(0, "augment", 1) != seed_of(0, "augment", 2)
    True
    """
    text = "/".join(str(part).replace("%", "%25").replace("/", "%2F") for part in key)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*key: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a fresh generator for the stream ``key`` of the run with this seed; "meta" has none of its own."""
    place = "cpu" if torch.device(device).type == "meta" else device
    return torch.Generator(place).manual_seed(seed_of(*key))


class SavedRandomState:
    """The state of the global generators now, to draw the same numbers from it again.

    Anything that draws from them, such as a user's dropout, then repeats itself in every evaluation of a function.

    >>> here = SavedRandomState(torch.device("cpu"))
    >>> with here.replay():
    ...     first = torch.rand(())
    >>> with here.replay():
    ...     print(torch.equal(first, torch.rand(())))
    True
    """

    def __init__(self, *devices: torch.device) -> None:
        self._devices = sorted({device for device in devices if device.type in ("cuda", "mps")}, key=str)
        self._states = self._read()

    @contextmanager
    def replay(self) -> Iterator[None]:
        """Draw from the saved state inside the block; afterwards restore the generators as they were before it."""
        before = self._read()
        self._write(self._states)
        try:
            yield
        finally:
            self._write(before)

    def _read(self) -> list[torch.Tensor]:
        """Return the states, which PyTorch keeps on the CPU: nothing waits for a device."""
        cuda = [torch.cuda.get_rng_state(one) for one in self._devices if one.type == "cuda"]
        mps = [torch.mps.get_rng_state() for one in self._devices if one.type == "mps"]
        return [torch.get_rng_state(), *cuda, *mps]

    def _write(self, states: list[torch.Tensor]) -> None:
        torch.set_rng_state(states[0])
        for one, state in zip(self._devices, states[1:], strict=True):
            torch.cuda.set_rng_state(state, one) if one.type == "cuda" else torch.mps.set_rng_state(state)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Restore the global generators of PyTorch (on the CPU), NumPy and Python after the block."""
    of_torch, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)


def seed_random_state(seed: int) -> None:
    """Seed the global generators of PyTorch (on the CPU), NumPy and Python."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
