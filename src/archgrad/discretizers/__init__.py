"""From probabilities to a genotype."""

from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import Discretizer, Judge, strongest
from archgrad.discretizers.best_sampled import BestSampled
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.discretizers.perturbation import Perturbation
from archgrad.discretizers.top_edges import TopEdges

__all__ = ["Argmax", "BestSampled", "Discretizer", "Judge", "LimitedSkips", "Perturbation", "TopEdges", "strongest"]
