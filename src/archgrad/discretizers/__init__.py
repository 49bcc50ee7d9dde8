"""From probabilities to a genotype."""

from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import Discretizer, strongest
from archgrad.discretizers.top_edges import TopEdges

__all__ = ["Argmax", "Discretizer", "TopEdges", "strongest"]
