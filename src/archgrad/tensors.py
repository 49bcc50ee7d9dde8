"""Types that let mypy tell the dictionaries of tensors apart; at run time each is a plain ``dict[str, Tensor]``."""

from __future__ import annotations

from typing import NewType

from torch import Tensor

__all__ = ["Alpha", "Mixture", "MixtureGradients", "Probabilities", "Weights"]

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
