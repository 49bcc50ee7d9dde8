"""Devices: which one to use, and what differs between a CPU and an accelerator."""

from __future__ import annotations

import torch
from torch import Tensor

from archgrad.errors import UserError, reason, shortened

__all__ = ["AUTO", "reads_are_free", "usable_device", "wide_type", "widened"]

AUTO = "auto"
"""The name that stands for the best device there is."""


def usable_device(device: torch.device | str) -> torch.device:
    """Return the device; reject one that is unknown or missing. "auto" is cuda if there is one, else mps, else cpu."""
    if device == AUTO:
        found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device(found)
    try:
        torch.zeros(1, device=device).item()
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ImportError) as error:
        said = reason(error).partition(". ")[0]
        raise UserError(f"the device {shortened(device)} cannot be used ({said}); try 'auto' or 'cpu'.") from error


def reads_are_free(device: torch.device) -> bool:
    """Tell whether Python may read a number of this device at once: on an accelerator it would wait for all work."""
    return device.type == "cpu"


def wide_type(device: torch.device) -> torch.dtype:
    """Return the most precise type of floating-point numbers on a device: mps has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def widened(x: Tensor) -> Tensor:
    """Return x in the most precise type of its device.

    >>> widened(torch.tensor([0.5])).dtype
    torch.float64
    """
    return x.to(wide_type(x.device))
