"""Freezing the kinks of a network, so that its gradient may be differenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from archgrad.errors import UserError

__all__ = ["ActivationPattern"]


class ActivationPattern(TorchFunctionMode):
    """Remembers which way every ReLU and every window of a 2-d max-pooling went, and makes them go that way again.

    The first evaluation under the pattern records it; all later ones are evaluations of the smooth function that the
    network is around that point. The second derivative of a ReLU is zero wherever it exists, but a difference of
    gradients also counts the units that switch between its two ends: few, each with a jump that the division by ε
    makes large. In a supernet they outweigh the curvature that is looked for. Other kinks are left as they are.

    >>> pattern, x = ActivationPattern(), torch.tensor([-1.0, 1.0])
    >>> pattern.evaluate(lambda: F.relu(x)), pattern.evaluate(lambda: F.relu(-x))
    (tensor([0., 1.]), tensor([ 0., -1.]))
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinks: list[Tensor] = []
        self._position = 0
        self.recorded = False

    def evaluate(self, loss: Callable[[], Tensor]) -> Tensor:
        """Evaluate a function of tensors, recording the pattern if there is none yet."""
        self._position = 0
        if not self.recorded:
            self._kinks.clear()
        with self:
            value = loss()
        if self._position != len(self._kinks):
            raise _changed()
        self.recorded = True
        return value

    def pack(self) -> None:
        """Keep the pattern in a byte for each ReLU and four for each window; let go of what the network computed."""
        self._kinks = [kink.int() if kink.dtype == torch.int64 else kink > 0 for kink in self._kinks]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _RELUS or func in _RELUS_IN_PLACE:
            return self._any_relu(func in _RELUS_IN_PLACE, *args, **kwargs)
        if func in _POOLS and not kwargs.get("return_indices"):
            return self._max_pool(*args, **kwargs)
        return func(*args, **kwargs)

    def _any_relu(self, always: bool, input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002 - PyTorch's word
        output = self._relu(input)
        return input.copy_(output) if always or inplace else output

    def _relu(self, x: Tensor) -> Tensor:
        if self.recorded:
            passed: Tensor = torch.ops.aten.threshold_backward(x, self._next().to(x.dtype), 0)
            return passed
        output = F.relu(x)
        self._remember(output)
        return output

    def _max_pool(self, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:  # noqa: A002 - PyTorch's word
        if self.recorded:
            chosen = self._next().long()
            return input.flatten(-2).gather(-1, chosen.flatten(-2)).view(chosen.shape)
        output, chosen = F.max_pool2d_with_indices(input, *args, **kwargs)
        self._remember(chosen)
        return output

    def _remember(self, kink: Tensor) -> None:
        self._kinks.append(kink.detach())
        self._position += 1

    def _next(self) -> Tensor:
        if self._position == len(self._kinks):
            raise _changed()
        self._position += 1
        return self._kinks[self._position - 1]


_RELUS = (F.relu, torch.relu, Tensor.relu)
_RELUS_IN_PLACE = (F.relu_, torch.relu_, Tensor.relu_)
_POOLS = (F.max_pool2d, torch.max_pool2d)


def _changed() -> UserError:
    return UserError(
        "the inner loss applies more or fewer ReLUs or max-poolings from one evaluation to the next, so that its "
        "gradients cannot be differenced; use products='exact', or difference='exact' of LayerAlignment."
    )
