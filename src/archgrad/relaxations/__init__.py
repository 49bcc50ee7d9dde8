"""From architecture parameters to the mixture a supernet computes."""

from archgrad.relaxations.base import Relaxation, Relaxed, spread
from archgrad.relaxations.softmax import Softmax

__all__ = ["Relaxation", "Relaxed", "Softmax", "spread"]
