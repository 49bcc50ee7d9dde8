"""Terms added to a step of the search."""

from archgrad.regularizers.base import Regularizer, WeightStep

__all__ = ["Regularizer", "WeightStep"]
