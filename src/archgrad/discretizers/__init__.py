"""Discretizers: from probabilities to a genotype."""

from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import (
    Discretizer,
    SupernetEvaluation,
    Ties,
    Tuning,
    count_ties,
    margins,
    strongest_choices,
)
from archgrad.discretizers.best_sampled import BestSampled
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.discretizers.most_probable import ScoredGenotype, most_probable
from archgrad.discretizers.perturbation import Perturbation
from archgrad.parts.registry import Registry

__all__ = [
    "DISCRETIZERS",
    "Argmax",
    "BestSampled",
    "Discretizer",
    "LimitedSkips",
    "Perturbation",
    "ScoredGenotype",
    "SupernetEvaluation",
    "Ties",
    "Tuning",
    "count_ties",
    "margins",
    "most_probable",
    "strongest_choices",
]

DISCRETIZERS = Registry[Discretizer](
    "discretizer",
    Discretizer,
    {
        "argmax": Argmax,
        "best-sampled": BestSampled,
        "perturbation": Perturbation,
        "limited-skips": LimitedSkips,
    },
)
"""The names on the command line."""
