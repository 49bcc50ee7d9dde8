"""From architecture parameters to the mixture a supernet computes."""

from archgrad.relaxations.base import Domain, Relaxation, Relaxed, spread
from archgrad.relaxations.softmax import Softmax

__all__ = ["Domain", "Relaxation", "Relaxed", "Softmax", "spread"]
