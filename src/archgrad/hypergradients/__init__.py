"""From a bilevel problem to the gradient of its outer parameters."""

from archgrad.hypergradients.base import Hypergradient
from archgrad.hypergradients.first_order import FirstOrder

__all__ = ["FirstOrder", "Hypergradient"]
