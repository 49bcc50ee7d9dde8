"""The global state of PyTorch that a search changes and restores; one search of a process has it at a time."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from archgrad.errors import UserError
from archgrad.system.random_streams import SavedRandomState

__all__ = ["own_global_state", "seed_globally", "take_turns"]

_log = logging.getLogger("archgrad")
_owner = threading.RLock()  # a callback may run a search inside a search


@contextmanager
def take_turns() -> Iterator[None]:
    """Wait until no other thread of this process searches, and keep others waiting inside the block.

    Weights are initialized from the global generators, and a user's operations may draw from them. So each search gives
    the same bits as alone.
    """
    if not _owner.acquire(blocking=False):
        _log.warning("another search is running in this process, and both need its random state; waiting for its end.")
        _owner.acquire()
    try:
        yield
    finally:
        _owner.release()


@contextmanager
def own_global_state(device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Enable gradients whatever the caller has set, and restore the caller's random state afterwards.

    ``deterministic`` lets PyTorch use deterministic kernels only.
    """
    kernels = _deterministic_kernels(device) if deterministic else nullcontext()
    with take_turns(), SavedRandomState(device).replay(), torch.inference_mode(False), torch.enable_grad(), kernels:
        yield


@contextmanager
def _deterministic_kernels(device: torch.device) -> Iterator[None]:
    """Set PyTorch's switches for deterministic kernels; restore them afterwards."""
    cudnn, variable = torch.backends.cudnn, "CUBLAS_WORKSPACE_CONFIG"
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    flags, unset = (cudnn.deterministic, cudnn.benchmark), device.type == "cuda" and variable not in os.environ
    torch.use_deterministic_algorithms(True)
    cudnn.deterministic, cudnn.benchmark = True, False
    if unset:  # cuBLAS reads it when it is first used
        os.environ[variable] = ":4096:8"
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        reason = str(error).partition(". ")[0][:200]
        raise UserError(f"the search cannot be deterministic on {device}: {reason}; search without.") from error
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.deterministic, cudnn.benchmark = flags
        if unset:
            os.environ.pop(variable, None)


def seed_globally(seed: int, device: torch.device) -> None:
    """Seed the global generators of the CPU and this device, from which a user's dropout may draw."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
