"""Hypergradients: from a bilevel problem to the gradient of its outer parameters."""

from functools import partial

from archgrad.hypergradients.amended import Amended
from archgrad.hypergradients.base import Hypergradient, HypergradientState, SecondOrder
from archgrad.hypergradients.conjugate_gradient import ConjugateGradient
from archgrad.hypergradients.evaluation_point import Batches, EvaluationPoint, evaluate_at
from archgrad.hypergradients.exact_implicit import ExactImplicit
from archgrad.hypergradients.first_order import FirstOrder
from archgrad.hypergradients.implicit import Implicit
from archgrad.hypergradients.neumann import Neumann, largest_safe_rate
from archgrad.hypergradients.nystrom import Nystrom
from archgrad.hypergradients.per_example import PerExample
from archgrad.hypergradients.reverse import Reverse
from archgrad.hypergradients.sharpness_aware import SharpnessAware
from archgrad.hypergradients.soba import SOBA
from archgrad.hypergradients.t1_t2 import T1T2
from archgrad.hypergradients.truncated_reverse import TruncatedReverse
from archgrad.hypergradients.unrolled import Unrolled
from archgrad.parts.registry import Registry

__all__ = [
    "HYPERGRADIENTS",
    "SOBA",
    "T1T2",
    "Amended",
    "Batches",
    "ConjugateGradient",
    "EvaluationPoint",
    "ExactImplicit",
    "FirstOrder",
    "Hypergradient",
    "HypergradientState",
    "Implicit",
    "Neumann",
    "Nystrom",
    "PerExample",
    "Reverse",
    "SecondOrder",
    "SharpnessAware",
    "TruncatedReverse",
    "Unrolled",
    "evaluate_at",
    "largest_safe_rate",
]

HYPERGRADIENTS = Registry[Hypergradient](
    "hypergradient",
    Hypergradient,
    {
        "first-order": FirstOrder,
        "per-example": PerExample,
        "unrolled": partial(Unrolled, products="forward"),
        "t1-t2": partial(T1T2, products="forward"),
        "neumann": partial(Neumann, products="forward"),
        "conjugate-gradient": partial(ConjugateGradient, products="forward"),
        "nystrom": partial(Nystrom, products="forward"),
        "soba": partial(SOBA, products="forward"),
        "truncated-reverse": partial(TruncatedReverse, products="forward"),
        "amended": partial(Amended, products="forward"),
        "exact-implicit": ExactImplicit,
        "sharpness-aware": SharpnessAware,
    },
)
"""The names on the command line, with the cheapest products that are true enough."""
