"""The precision of a supernet's forward pass: 32 bit, or bfloat16 and float16 by autocast."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.functions import apply
from archgrad.autodiff.tensors import Mixture, Weights
from archgrad.errors import UserError

__all__ = ["LossScale", "check_precision", "lowered"]

_Forward = Callable[..., Any]
"""(weights, images, mixture, …) → logits, or a tuple of logits with the auxiliary head."""

_TYPES = {"bf16": torch.bfloat16, "16": torch.float16}
_FIRST, _INTERVAL = 2.0**16, 2000


def check_precision(precision: str, device: torch.device) -> None:
    """Raise a UserError if the device cannot compute in this precision."""
    if precision not in _TYPES:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = torch.zeros(1, 2, 4, 4, device=device, requires_grad=True)
            with torch.autocast(device.type, _TYPES[precision]):
                y = torch.nn.functional.batch_norm(torch.conv2d(x, x[..., :3, :3]), None, None, training=True)
            torch.autograd.grad(y.float().sum(), x)
    except (RuntimeError, NotImplementedError, UserWarning) as error:
        reason = str(error).partition("\n")[0][:150].rstrip(".")
        raise UserError(
            f"precision is {precision!r}, which PyTorch cannot compute on {device} here ({reason}); choose 32."
        ) from error


def lowered(forward: _Forward, precision: str, device: torch.device) -> _Forward:
    """Return the forward pass under autocast: convolutions in the lower precision, weights and logits in 32 bit.

    With a ``scale`` s, all gradients inside are s times as large: they would be too small for float16. Those that come
    out of it are divided by s again, so nobody else needs to know.
    """
    kind = _TYPES[precision]

    def run(weights: Weights, images: Tensor, mixture: Mixture, *, scale: Tensor | None = None, **more: Any) -> Any:
        if scale is not None:
            weights, mixture = _with_factor(weights, 1 / scale), _with_factor(mixture, 1 / scale)
        with torch.autocast(device.type, kind):
            output = forward(weights, images, mixture, **more)
        outputs = tuple(one.float() for one in (output if isinstance(output, tuple) else (output,)))
        if scale is not None:
            outputs = tuple(apply(_GradientFactor, one, scale) for one in outputs)
        return outputs if isinstance(output, tuple) else outputs[0]

    return run


def _with_factor(tensors: Any, factor: Tensor) -> Any:
    return {
        name: apply(_GradientFactor, value, factor) if value.requires_grad else value for name, value in tensors.items()
    }


class _GradientFactor(Function):
    """x ↦ x, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(x: Tensor, factor: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return grad * factor, None


@dataclass
class LossScale:
    """The factor on gradients inside a float16 pass.

    It is halved when a gradient overflows, and that step is left out; it is doubled after 2,000 steps without. To know
    it, every step reads one number of the device, as PyTorch's own ``GradScaler`` does.
    """

    value: Tensor
    good: Tensor

    @classmethod
    def first(cls, device: torch.device) -> LossScale:
        """Return the scale at the beginning of a search."""
        return cls(torch.tensor(_FIRST, device=device), torch.tensor(0))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The scale as it stands in a checkpoint."""
        return {"value": self.value, "good": self.good}

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Become the scale of a checkpoint."""
        self.value, self.good = saved["value"].to(self.value.device), saved["good"]

    def overflowed(self, gradients: Iterable[Tensor]) -> bool:
        """Adapt the scale, and tell whether these gradients are to be left out; at a scale of 1 they never are."""
        finite = bool(torch.stack([torch.isfinite(one).all() for one in gradients]).all())
        if not finite:
            left = bool(self.value > 1)
            self.value, self.good = (self.value / 2).clamp_min(1.0), torch.tensor(0)
            return left
        self.good = self.good + 1
        if self.good >= _INTERVAL:
            self.value, self.good = self.value * 2, torch.tensor(0)
        return False
