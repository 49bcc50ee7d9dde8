"""Every regularizer with every relaxation, at either level and with second derivatives: real steps that go elsewhere
than they would without it, or a sentence."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import pytest
import torch
from listening import Event, StepFinished, listening
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.arch_optimizers import Adam, Fixed, MirrorDescent
from archgrad.errors import UserError
from archgrad.regularizers import (
    REGULARIZERS,
    CostPenalty,
    Flooding,
    GreedyDecisions,
    LayerAlignment,
    OperationStopping,
    Regularizer,
)
from archgrad.relaxations import Concrete, Dirichlet, GumbelHard, Relaxation, Sigmoid, Simplex, Softmax, Uniform
from archgrad.spaces import SearchSpace
from archgrad.training.schedule import Schedule

pytestmark = pytest.mark.usefixtures("_trusted_differences")

DATA = ag.data.digits(limit=40)
EDGES = Tiny(channels=4, cells_per_stage=1)
NODES = ag.spaces.NASBench1Shot1(number=3, channels=4, cells=3)
RELAXATIONS: dict[str, Relaxation] = {
    "softmax": Softmax(),
    "sigmoid": Sigmoid(),
    "simplex": Simplex(),
    "simplex-sparse": Simplex(skip_zero=True),
    "gumbel-hard": GumbelHard(),
    "gumbel-hard-per-cell": GumbelHard(domain="simplex", per_cell=True),
    "concrete": Concrete(per_cell=True),
    "dirichlet": Dirichlet(),
    "uniform": Uniform(),
    "uniform-per-cell": Uniform(per_cell=True),
}
MEMBERS: dict[str, Regularizer] = {name: kind() for name, kind in REGULARIZERS.items()} | {
    "cost-penalty": CostPenalty("params", 5000),
    "flooding": Flooding(level=5.0),  # above the first losses
    "operation-stopping": OperationStopping(threshold=1.0, iterations=1),
    "greedy-decisions": GreedyDecisions(begin=0.0, end=0.0),
    "layer-alignment": LayerAlignment(schedule="constant"),
    "layer-alignment-exact": LayerAlignment("sign", schedule="constant", difference="exact"),
    "layer-alignment-central": LayerAlignment(schedule="constant", difference="central", kinks="crossed"),
    "layer-alignment-outer": LayerAlignment(schedule="constant", objective="outer"),
}
ON_ALPHA = ("entropy", "dirichlet-kl", "beta-decay", "cost-penalty", "layer-alignment-outer", "zero-one")
"""Those that add to the loss of the architecture; the others change the step of the weights."""
SUITED = {"dirichlet-kl": "dirichlet", "zero-one": "sigmoid"}
"""Those that need a relaxation of their own."""


def refusal(regularizer: str, relaxation: str) -> str | None:
    if regularizer in ON_ALPHA and not RELAXATIONS[relaxation].learns:
        return "adds to the loss of the architecture, but Fixed never moves the architecture"
    if regularizer in ("operation-stopping", "greedy-decisions") and not RELAXATIONS[relaxation].learns:
        return "compares the gradients" if regularizer == "operation-stopping" else "decides by what α has learned"
    if regularizer == "dirichlet-kl" and relaxation != "dirichlet":
        return "DirichletKL needs a Dirichlet distribution"
    if MEMBERS[regularizer].needs_simplex and not RELAXATIONS[relaxation].on_simplex:
        return "needs rows of probabilities that sum to one"
    if regularizer == "zero-one" and RELAXATIONS[relaxation].on_simplex:
        return "ZeroOne moves each weight away from"
    if regularizer == "beta-decay" and RELAXATIONS[relaxation].domain == "simplex":
        return "BetaDecay"
    return None


def method_of(regularizer: str, relaxation: str) -> ag.Method:
    member = RELAXATIONS[relaxation]
    optimizer = Adam() if member.domain == "real" else MirrorDescent("euclidean", lr=1e-2)
    return replace(
        ag.recipes.darts(),
        relaxation=member,
        arch_optimizer=optimizer if member.learns else Fixed(),
        regularizers=(MEMBERS[regularizer],),
    )


class Found(NamedTuple):
    """Where a search ends."""

    alpha: dict[str, Tensor]
    weights: dict[str, Tensor]


@lru_cache(maxsize=64)
def after_two_steps(method: ag.Method, space: SearchSpace, epochs: int = 1) -> Found:
    steps: list[Event] = []
    images = 20 if method.schedule.level == "bilevel" else 40
    settings = {
        "epochs": epochs,
        "batch_size": epochs * images // 2,
        "held_out": 0,
        "standard_callbacks": False,
        "callbacks": listening(steps.append),
    }
    settings["alpha_budget"] = "off"
    result = ag.search(space, method, DATA, **settings)
    assert sum(isinstance(step, StepFinished) for step in steps) == 2
    found = Found(result.alpha, {name: weight.detach() for name, weight in result.supernet.named_parameters()})
    assert all(value.isfinite().all() for values in found for value in values.values())
    return found


def takes_two_steps(method: ag.Method, space: SearchSpace = EDGES) -> None:
    """The steps are finite, and what they move is not where it would be without each of the regularizers."""
    epochs = 2 if any(isinstance(part, GreedyDecisions) for part in method.regularizers) else 1  # it decides between
    found = after_two_steps(method, space, epochs)
    for regularizer in method.regularizers:
        others = tuple(part for part in method.regularizers if part is not regularizer)
        without = after_two_steps(replace(method, regularizers=others), space, epochs)
        on_alpha = regularizer in [MEMBERS[name] for name in ON_ALPHA]
        moved, stayed = (found.alpha, without.alpha) if on_alpha else (found.weights, without.weights)
        assert moved.keys() == stayed.keys()
        assert not all(torch.equal(moved[name], stayed[name]) for name in moved), type(regularizer).__name__


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("regularizer", MEMBERS)
def test_every_regularizer_with_every_relaxation(regularizer: str, relaxation: str) -> None:
    sentence = refusal(regularizer, relaxation)
    if (regularizer, relaxation) == ("adversarial-perturbation", "uniform-per-cell"):
        after_two_steps(method_of(regularizer, relaxation), EDGES)  # both perturbations lower the loss and are not kept
        return
    if sentence is None:
        takes_two_steps(method_of(regularizer, relaxation))
        return
    with pytest.raises(UserError, match=sentence):
        method_of(regularizer, relaxation)


@pytest.mark.parametrize("regularizer", MEMBERS)
def test_every_regularizer_with_operations_on_nodes(regularizer: str) -> None:
    if regularizer == "greedy-decisions":
        with pytest.raises(UserError, match="GreedyDecisions decides an edge with its operation, but block"):
            after_two_steps(method_of(regularizer, "softmax"), NODES)
        return
    takes_two_steps(method_of(regularizer, SUITED.get(regularizer, "softmax")), NODES)


PLAIN = [name for name in MEMBERS if name != "dirichlet-kl"]
SECOND = ("unrolled", "neumann", "amended")
"""They differ in where they take the same two products; each regularizer meets one of them."""


@pytest.mark.parametrize(
    ("regularizer", "hypergradient"),
    [(name, kind) for place, name in enumerate(PLAIN) for kind in (SECOND[place % 3], "per-example")],
)
def test_every_regularizer_with_gradients_of_higher_order(regularizer: str, hypergradient: str) -> None:
    method = method_of(regularizer, SUITED.get(regularizer, "softmax"))
    takes_two_steps(replace(method, hypergradient=ag.hypergradients.HYPERGRADIENTS.create(hypergradient)))


@pytest.mark.parametrize("updates", ["alternate", "simultaneous"])
@pytest.mark.parametrize("regularizer", PLAIN)
def test_every_regularizer_on_one_level(regularizer: str, updates: str) -> None:
    def single() -> ag.Method:
        return replace(
            method_of(regularizer, SUITED.get(regularizer, "softmax")),
            schedule=Schedule(level="single", updates=updates),
        )

    refused = {"operation-stopping": "compares the gradients"}
    refused |= {"layer-alignment-outer": "on the outer objective"} if updates == "simultaneous" else {}
    if regularizer in refused:
        with pytest.raises(UserError, match=refused[regularizer]):
            single()
        return
    takes_two_steps(single())


def test_three_repairs_at_once_are_a_few_lines() -> None:
    """Λ + GAEA + Neumann, which nobody has published, with a perturbed mixture on top."""
    base = ag.recipes.gaea(level="bilevel", hypergradient=ag.hypergradients.Neumann(2))
    method = ag.recipes.lambda_darts("sign", base=base)
    method = replace(method, regularizers=(*method.regularizers, ag.regularizers.RandomPerturbation()))
    takes_two_steps(method)  # the second step has progress, and with it alignment
    assert method.name == "lambda-sign-gaea-bilevel"
