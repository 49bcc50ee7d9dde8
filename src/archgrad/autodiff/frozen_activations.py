"""Freezing the kinks of a network, so that its gradient may be differenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from archgrad.autodiff.kinked_functions import KINKED_FUNCTIONS
from archgrad.errors import UserError

__all__ = ["ActivationPattern", "evaluate_frozen"]


class ActivationPattern(TorchFunctionMode):
    """Remembers on which smooth piece every function with kinks was, and holds it there.

    The first evaluation under the pattern records it; all later ones are evaluations of the smooth function that the
    network is around that point. The second derivative of a ReLU is zero wherever it exists, but a difference of
    gradients also counts the units that switch between its two ends: few, each with a jump that the division by ε
    makes large. In a supernet they outweigh the curvature that is looked for.

    :data:`~archgrad.autodiff.kinked_functions.KINKED_FUNCTIONS` lists the functions besides ReLU: other piecewise
    activations, absolute values, clamps, maxima, poolings, sorts, and comparisons, which :func:`torch.where` may read.
    Other kinks, such as those inside a user's compiled or hand-differentiated functions, are left as they are. A search
    notices them by comparing a difference with an exact product (:mod:`archgrad.autodiff.difference_check`).

    >>> pattern, x = ActivationPattern(), torch.tensor([-1.0, 1.0])
    >>> pattern.evaluate(lambda: F.relu(x)), pattern.evaluate(lambda: F.relu(-x))
    (tensor([0., 1.]), tensor([ 0., -1.]))
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Tensor] = []
        self._outputs: set[int] = set()  # the places of ReLUs, which are kept by what they gave until they are packed
        self._indices: set[int] = set()  # the places of whole numbers that were packed
        self._position = 0
        self.recorded = False

    def evaluate(self, loss: Callable[[], Tensor]) -> Tensor:
        """Evaluate a function of tensors, recording the pattern if there is none yet."""
        self._position = 0
        if not self.recorded:
            self._kept.clear()
            self._outputs.clear()
            self._indices.clear()
        with self:
            value = loss()
        if self._position != len(self._kept):
            raise _changed()
        self.recorded = True
        return value

    def pack(self) -> None:
        """Keep the pattern in a byte for each ReLU and four for each index; let go of what the network computed."""
        for place, kept in enumerate(self._kept):
            if place in self._outputs:
                self._kept[place] = kept > 0
            elif kept.dtype == torch.int64:
                self._kept[place] = kept.int()
                self._indices.add(place)
        self._outputs.clear()

    def keep(self, decide: Callable[[], Tensor]) -> Tensor:
        """Return what ``decide`` returned at this place of the first evaluation."""
        if self.recorded:
            return self._next()
        decided = decide().detach()
        self._remember(decided)
        return decided

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "out" or value is not None}
        if func in _RELUS or func in _RELUS_IN_PLACE:
            return self._any_relu(func in _RELUS_IN_PLACE, *args, **kwargs)
        frozen = KINKED_FUNCTIONS.get(func)
        if frozen is None or "out" in kwargs:
            return func(*args, **kwargs)
        return frozen(self, *args, **kwargs)

    def _any_relu(self, always: bool, input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002 - PyTorch's word
        output = self._relu(input)
        return input.copy_(output) if always or inplace else output

    def _relu(self, x: Tensor) -> Tensor:
        if self.recorded:
            passed: Tensor = torch.ops.aten.threshold_backward(x, self._next().to(x.dtype), 0)
            return passed
        output = F.relu(x)
        self._outputs.add(self._position)
        self._remember(output.detach())
        return output

    def _remember(self, kept: Tensor) -> None:
        self._kept.append(kept)
        self._position += 1

    def _next(self) -> Tensor:
        if self._position == len(self._kept):
            raise _changed()
        place, self._position = self._position, self._position + 1
        return self._kept[place].long() if place in self._indices else self._kept[place]


_RELUS = {F.relu, torch.relu, Tensor.relu}
_RELUS_IN_PLACE = {F.relu_, torch.relu_, Tensor.relu_}


def _changed() -> UserError:
    return UserError(
        "the inner loss applies more or fewer functions with kinks (ReLUs, poolings, comparisons) from one evaluation "
        "to the next, so that its gradients cannot be differenced; use products='exact', or difference='exact' of "
        "LayerAlignment."
    )


def evaluate_frozen(
    pattern: ActivationPattern | None, loss: Callable[[], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Evaluate a loss and its logits under an activation pattern, or plainly if there is none."""
    if pattern is None:
        return loss()
    logits: list[Tensor] = []

    def first() -> Tensor:
        value, other = loss()
        logits.append(other)
        return value

    return pattern.evaluate(first), logits[0]
