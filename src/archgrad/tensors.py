"""Names for the dictionaries of tensors that a search works with."""

from __future__ import annotations

from torch import Tensor

__all__ = ["Alpha", "MixtureGradients", "Weights"]

Weights = dict[str, Tensor]
"""Parameters of the inner problem, by name."""

Alpha = dict[str, Tensor]
"""Parameters of the outer problem, by block: ``[rows, choices]`` in a search."""

MixtureGradients = dict[str, Tensor]
"""The gradient of a loss with respect to every cell's mixture, by block: ``[cells, rows, choices]``."""
