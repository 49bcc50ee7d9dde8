"""Regularizers: terms added to a step of the search."""

from archgrad.parts.registry import Registry
from archgrad.regularizers.adversarial_perturbation import AdversarialPerturbation
from archgrad.regularizers.auxiliary_skip import AuxiliarySkip
from archgrad.regularizers.base import (
    DecisionStep,
    OuterStep,
    PerturbStep,
    Regularizer,
    RegularizerState,
    WeightStep,
)
from archgrad.regularizers.beta_decay import BetaDecay
from archgrad.regularizers.cost_penalty import CostPenalty
from archgrad.regularizers.dirichlet_kl import DirichletKL
from archgrad.regularizers.entropy import EntropyTerm
from archgrad.regularizers.flooding import Flooding
from archgrad.regularizers.greedy_decisions import GreedyDecisions
from archgrad.regularizers.layer_alignment import LayerAlignment
from archgrad.regularizers.operation_stopping import OperationStopping
from archgrad.regularizers.random_perturbation import RandomPerturbation
from archgrad.regularizers.zero_one import ZeroOne

__all__ = [
    "REGULARIZERS",
    "AdversarialPerturbation",
    "AuxiliarySkip",
    "BetaDecay",
    "CostPenalty",
    "DecisionStep",
    "DirichletKL",
    "EntropyTerm",
    "Flooding",
    "GreedyDecisions",
    "LayerAlignment",
    "OperationStopping",
    "OuterStep",
    "PerturbStep",
    "RandomPerturbation",
    "Regularizer",
    "RegularizerState",
    "WeightStep",
    "ZeroOne",
    "name_of",
]

REGULARIZERS = Registry[Regularizer](
    "regularizer",
    Regularizer,
    {
        "entropy": EntropyTerm,
        "dirichlet-kl": DirichletKL,
        "layer-alignment": LayerAlignment,
        "random-perturbation": RandomPerturbation,
        "adversarial-perturbation": AdversarialPerturbation,
        "beta-decay": BetaDecay,
        "flooding": Flooding,
        "zero-one": ZeroOne,
        "auxiliary-skip": AuxiliarySkip,
        "operation-stopping": OperationStopping,
        "greedy-decisions": GreedyDecisions,
        "cost-penalty": CostPenalty,
    },
)
"""The names on the command line."""


def name_of(regularizer: Regularizer) -> str | None:
    """Return the name of a regularizer; None for a custom one.

    >>> name_of(DirichletKL(0.5))
    'dirichlet-kl'
    """
    return next((name for name, kind in REGULARIZERS.items() if type(regularizer) is kind), None)
