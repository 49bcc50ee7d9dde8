"""The global state of PyTorch that a search changes and restores; one search of a process has it at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["own_global_state", "seed_globally"]

_log = logging.getLogger("archgrad")
_owner = threading.RLock()  # a callback may run a search inside a search


@contextmanager
def own_global_state(device: torch.device) -> Iterator[None]:
    """Enable gradients whatever the caller has set, and restore the caller's random state afterwards.

    Weights are initialized from the global generators, and a user's operations may draw from them. So searches in
    several threads of a process take turns: each gives the same bits as alone.
    """
    if not _owner.acquire(blocking=False):
        _log.warning("another search is running in this process, and both need its random state; waiting for its end.")
        _owner.acquire()
    try:
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        _owner.release()


def seed_globally(seed: int, device: torch.device) -> None:
    """Seed the global generators of the CPU and this device, from which a user's dropout may draw."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
