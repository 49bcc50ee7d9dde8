"""The global state of PyTorch that a search changes and restores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["own_modes", "seed_globally"]


@contextmanager
def own_modes(device: torch.device) -> Iterator[None]:
    """Enable gradients whatever the caller has set, and restore the caller's random state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
        yield


def seed_globally(seed: int, device: torch.device) -> None:
    """Seed the global generators of the CPU and this device, from which a user's dropout may draw."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
