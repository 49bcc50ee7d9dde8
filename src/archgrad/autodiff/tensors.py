"""Types that let mypy tell the dictionaries of tensors apart; at run time each is a plain ``dict[str, Tensor]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NewType

from torch import Tensor

from archgrad.errors import UserError, shortened

__all__ = ["Alpha", "Mixture", "MixtureGradients", "Probabilities", "Weights", "check_tensors"]

Weights = NewType("Weights", dict[str, Tensor])
"""Parameters of the inner problem, by name."""

Alpha = NewType("Alpha", dict[str, Tensor])
"""Parameters of the outer problem, by block: ``[rows, choices]`` in a search."""

Probabilities = NewType("Probabilities", dict[str, Tensor])
"""The probability of every choice, by block: ``[rows, choices]``."""

Mixture = NewType("Mixture", dict[str, Tensor])
"""The weight of every choice in every cell, by block: ``[cells, rows, choices]``.

With a mixture for each of N images it is ``[cells, N, rows, choices]``.
"""

MixtureGradients = dict[str, Tensor]
"""The gradient of a loss with respect to every cell's mixture, by block: ``[cells, rows, choices]``."""


def check_tensors(name: str, tensors: object, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
    """Raise a UserError unless these are tensors of real numbers by name, with these last dimensions if given."""
    if not isinstance(tensors, Mapping):
        raise UserError(f"{name} is {shortened(tensors)}; it must be a dictionary of tensors.")
    for key in tensors if shapes is None else shapes:
        value = tensors.get(key)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            found = f"a tensor of {value.dtype}" if isinstance(value, Tensor) else shortened(value)
            raise UserError(f"{name}[{key!r}] is {found}; it must be a tensor of floating-point numbers.")
        if shapes is not None and tuple(value.shape[-len(shapes[key]) :]) != tuple(shapes[key]):
            raise UserError(f"{name}[{key!r}] has the shape {list(value.shape)}; it must be {list(shapes[key])}.")
