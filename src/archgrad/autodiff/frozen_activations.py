"""Freeze the kinks of a network, so that differences of its gradients make sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.autodiff.forward_mode import ForwardMode
from archgrad.autodiff.kinked_functions import KINKED_FUNCTIONS
from archgrad.errors import UserError

__all__ = ["ActivationPattern", "evaluate_frozen"]

Found = TypeVar("Found")


class ActivationPattern(ForwardMode):
    """Records the smooth piece on which every function with kinks was evaluated, and keeps it there.

    The first evaluation records the pattern. All later ones evaluate the smooth function that the network is around
    that point. The second derivative of a ReLU is zero wherever it exists. A difference of gradients, however, also
    counts the units that switch between its two ends: few, but each jumps, and the division by ε makes the jump large.
    In a supernet these jumps outweigh the curvature.

    :data:`~archgrad.autodiff.kinked_functions.KINKED_FUNCTIONS` lists the functions besides ReLU: piecewise linear
    activations, absolute values, clamps, poolings of images, comparisons, which :func:`torch.where` may read. All other
    kinks stay as they are. A search detects them by comparing a difference with an exact product
    (:mod:`archgrad.autodiff.difference_check`), and then uses exact products.

    >>> pattern, x = ActivationPattern(), torch.tensor([-1.0, 1.0])
    >>> pattern.evaluate(lambda: F.relu(x)), pattern.evaluate(lambda: F.relu(-x))
    (tensor([0., 1.]), tensor([ 0., -1.]))
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Tensor] = []
        self._outputs: set[int] = set()  # places of ReLUs: their outputs are kept until they are packed
        self._indices: set[int] = set()  # places of packed indices
        self._position = 0
        self.recorded = False

    def evaluate(self, loss: Callable[[], Found]) -> Found:
        """Evaluate a function of tensors; record the pattern in the first evaluation."""
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
        """Store the pattern in one byte per ReLU unit and four per index; free the network's activations."""
        for place, kept in enumerate(self._kept):
            if place in self._outputs:
                self._kept[place] = torch.ops.aten.gt(kept, 0)  # "kept > 0" would be recorded
            elif kept.dtype == torch.int64:
                self._kept[place] = kept.int()
                self._indices.add(place)
        self._outputs.clear()

    def release_activations(self) -> None:
        """Pack the pattern while it is being recorded."""
        self.pack()

    def repetition(self) -> Callable[[], ActivationPattern]:
        """Return what makes a pattern that decides the same from here on.

        While this one is recorded, a new one does: the same activations make the same decisions. Later it reads the
        recorded ones from the present place on.
        """
        if not self.recorded:
            return ActivationPattern
        place = self._position

        def from_here() -> ActivationPattern:
            pattern = ActivationPattern()
            pattern.recorded, pattern._position = True, place
            pattern._kept, pattern._outputs, pattern._indices = self._kept, self._outputs, self._indices
            return pattern

        return from_here

    def keep(self, decide: Callable[[], Tensor]) -> Tensor:
        """Return the result of ``decide`` at this place of the first evaluation."""
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
        "the number of functions with kinks (ReLUs, poolings, comparisons) in the inner loss changes from one "
        "evaluation to the next, so differences of its gradients are meaningless; use products='exact', or "
        "difference='exact' of LayerAlignment."
    )


def evaluate_frozen(pattern: ActivationPattern | None, loss: Callable[[], Found]) -> Found:
    """Evaluate a function of tensors, under an activation pattern if one is given."""
    return loss() if pattern is None else pattern.evaluate(loss)
