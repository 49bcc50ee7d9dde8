"""The global state of PyTorch that a search touches, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["own_modes", "seed_globally"]


@contextmanager
def own_modes(device: torch.device) -> Iterator[None]:
    """Record gradients whatever the caller does, and give the caller's random state back afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
        yield


def seed_globally(seed: int, device: torch.device) -> None:
    """Seed the generators that operations may draw from, such as a user's dropout, and no other device's."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
