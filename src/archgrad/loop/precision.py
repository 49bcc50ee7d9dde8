"""The precision of a supernet's forward pass: 32 bit, or bfloat16 by autocast."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from archgrad.errors import UserError

__all__ = ["check_precision", "lowered"]

_Forward = Callable[..., Any]
"""(weights, images, mixture, …) → logits, or a tuple of logits with the auxiliary head."""


def check_precision(precision: str, device: torch.device) -> None:
    """Raise a UserError if the device cannot compute in this precision."""
    if precision == "32":
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = torch.zeros(1, 2, 4, 4, device=device, requires_grad=True)
            with torch.autocast(device.type, torch.bfloat16):
                y = torch.nn.functional.batch_norm(torch.conv2d(x, x[..., :3, :3]), None, None, training=True)
            torch.autograd.grad(y.float().sum(), x)
    except (RuntimeError, NotImplementedError, UserWarning) as error:
        reason = str(error).partition("\n")[0][:150].rstrip(".")
        raise UserError(
            f"precision is {precision!r}, which PyTorch cannot compute on {device} here ({reason}); choose 32."
        ) from error


def lowered(forward: _Forward, device: torch.device) -> _Forward:
    """Return the forward pass under autocast: convolutions in bfloat16, weights and logits in 32 bit."""

    def run(*given: Any, **more: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            output = forward(*given, **more)
        return tuple(one.float() for one in output) if isinstance(output, tuple) else output.float()

    return run
