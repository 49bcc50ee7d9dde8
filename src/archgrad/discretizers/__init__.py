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
from archgrad.discretizers.evolved import Evolved
from archgrad.discretizers.largest import Largest
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.discretizers.most_probable import ScoredGenotype, most_probable
from archgrad.discretizers.perturbation import Perturbation
from archgrad.discretizers.threshold import Threshold
from archgrad.parts.registry import Registry

__all__ = [
    "DISCRETIZERS",
    "Argmax",
    "BestSampled",
    "Discretizer",
    "Evolved",
    "Largest",
    "LimitedSkips",
    "Perturbation",
    "ScoredGenotype",
    "SupernetEvaluation",
    "Threshold",
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
        "largest": Largest,
        "threshold": Threshold,
        "best-sampled": BestSampled,
        "evolved": Evolved,
        "perturbation": Perturbation,
        "limited-skips": LimitedSkips,
    },
)
"""The names on the command line."""
