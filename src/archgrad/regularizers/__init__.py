"""Terms added to a step of the search."""

from archgrad.regularizers.base import OuterStep, Regularizer, WeightStep
from archgrad.regularizers.dirichlet_kl import DirichletKL
from archgrad.regularizers.entropy import EntropyTerm

__all__ = ["DirichletKL", "EntropyTerm", "OuterStep", "Regularizer", "WeightStep"]
