"""Every hypergradient with every method, and every recipe in every kind of space: two real steps, or a sentence
before training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from listening import Event, SearchStarted, StepFinished, listening
from tiny_space import Tiny
from varied_spaces import VARIED_SPACES

import archgrad as ag
from archgrad.arch_optimizers import Adam, MirrorDescent
from archgrad.discretizers import DISCRETIZERS, BestSampled, Evolved, Perturbation
from archgrad.errors import UserError
from archgrad.hypergradients import HYPERGRADIENTS, exact_implicit
from archgrad.recipes import RECIPES
from archgrad.regularizers import LayerAlignment
from archgrad.relaxations import Concrete, Dirichlet, GumbelHard, Relaxation, Sigmoid, Simplex, Softmax

pytestmark = pytest.mark.usefixtures("_trusted_differences")

DATA = ag.data.digits(limit=40)
RELAXATIONS: dict[str, Relaxation] = {
    "softmax": Softmax(),
    "sigmoid": Sigmoid(),
    "simplex": Simplex(),
    "simplex-sparse": Simplex(skip_zero=True),
    "gumbel-hard": GumbelHard(),
    "gumbel-hard-simplex": GumbelHard(domain="simplex", per_cell=True),
    "concrete": Concrete(per_cell=True),
    "concrete-simplex": Concrete(domain="simplex"),
    "dirichlet": Dirichlet(),
    "dirichlet-per-cell": Dirichlet(per_cell=True),
}
# With another hypergradient these are DARTS or, at the other level, GAEA; or they differ from DARTS in the weight decay
# or in regularizers alone, which have a grid of their own.
SAME = ("darts-2nd", "idarts", "amended", "a2m", "gaea-bilevel", "r-darts-l2")
STABILIZED = (
    "sdarts-rs", "sdarts-adv", "beta-darts", "beta-darts-plus", "darts-minus", "darts-pt", "p-darts", "r-darts-es",
)  # fmt: skip
METHODS = [
    name
    for name in RECIPES
    if name not in (*SAME, *STABILIZED) and not name.startswith("lambda-") and not name.endswith("-paper")
]
# Operations on edges, and on nodes: every recipe searches the cheapest space of both kinds.
KINDS = ("nasbench201", "nasbench1shot1-3")
# Two kinds of cells and two inputs to each: these differ in what their rows offer, so every recipe searches one. DARTS
# itself has the same cells with the most operations; some recipes search it.
CELL_PAIRS = ("s1", "s2", "s3", "s4", "amended-a1")
# What a space can get wrong: partial channels with weighted edges, one drawn operation, a mixture of fewer choices.
EVERYWHERE = ("gaea-pc-darts", "gdas", "p-darts")
ALIKE = (("unrolled", "t1-t2"), ("neumann", "conjugate-gradient"))
"""Hypergradients that ask a method for the same; each method meets one of each pair, in turns."""


def refusal(method: str, hypergradient: str) -> str | None:
    """Return the sentence that a pair is refused with, None for one that works."""
    named = ag.recipes.named(method)
    if not named.relaxation.learns and hypergradient != "first-order":
        return "never moves the architecture, so .* would have nothing to do; use FirstOrder"
    if named.schedule.updates == "simultaneous" and hypergradient != "first-order":
        return "simultaneous updates take one backward pass .* set schedule.updates=alternate"
    if hypergradient == "per-example" and named.relaxation.sampled:
        return "gives each image its own architecture parameters, but .* choose a relaxation that does not sample"
    if hypergradient in ("nystrom", "soba") and any(part.watches for part in named.regularizers):
        return "stops the training of some weights, but .* keeps a state for each of them"
    if hypergradient == "exact-implicit":
        return "builds the dense Hessian of .* weights, but its limit is .* use ConjugateGradient or Neumann"
    return None


class Steps:
    """Counts steps, and keeps the first α."""

    def __init__(self) -> None:
        self.count, self.first = 0, {"": torch.zeros(())}

    def __call__(self, event: Event) -> None:
        if isinstance(event, SearchStarted):
            self.first = dict(event.state.alpha)
        self.count += isinstance(event, StepFinished)


def searched(method: ag.Method, space: str = "tiny", **settings: Any) -> tuple[ag.SearchResult, Steps]:
    steps = Steps()
    method = replace(method, schedule=replace(method.schedule, warmup_epochs=0, inner_steps=1))
    images = 20 if method.schedule.level == "bilevel" else 40
    depth = {"cells_per_stage": 1} if space in ("tiny", "nasbench201") else {"cells": 4 if _aligns(method) else 3}
    small = (Tiny if space == "tiny" else ag.spaces.SPACES.constructor(space))(channels=4, **depth)
    result = ag.search(
        small,
        method,
        DATA,
        epochs=1,
        batch_size=images // 2,
        held_out=0,
        callbacks=listening(steps),
        standard_callbacks=False,
        **settings,
    )
    small.check(result.genotype)
    return result, steps


def _aligns(method: ag.Method) -> bool:
    return any(isinstance(part, LayerAlignment) for part in method.regularizers)


CHAINS = ("macro", "mobile")
ALIGNED = [name for name in RECIPES if _aligns(ag.recipes.named(name))]


def recipes_in_spaces() -> list[tuple[str, str]]:
    """Every recipe in each kind of space, in one of those with pairs of cells and in a chain, and some in all."""
    chosen = []
    for place, recipe in enumerate(RECIPES):
        own = {*KINDS, CELL_PAIRS[place % len(CELL_PAIRS)]}
        own |= {CHAINS[place % 2]} if recipe not in ALIGNED and "pc-darts" not in recipe else set()
        chosen += [(recipe, space) for space in VARIED_SPACES if space in own or recipe in EVERYWHERE]
    chosen = [pair for pair in chosen if pair[0] != "gaea-pc-darts" or pair[1] not in CHAINS]  # no partial channels
    return [pair for pair in chosen if pair[0] != "sgas" or not pair[1].startswith("nasbench1shot1")]  # edges apart


def methods_with_hypergradients() -> list[tuple[str, str]]:
    """Every method with each kind of hypergradient, and every hypergradient with every second method."""
    left_out = {(name, pair[place % 2]) for place, name in enumerate(METHODS) for pair in ALIKE}
    pairs = [(name, hypergradient) for name in METHODS for hypergradient in HYPERGRADIENTS]
    return [pair for pair in pairs if pair not in left_out]


def shortened(method: ag.Method) -> ag.Method:
    """Return the method with one small stage, and without tuning or many samples in its derivation."""
    if method.progressive is not None:
        stages = replace(method.progressive, cells=(None,), keep=(8,), skip_dropout=(0.0,), partial=(None,))
        method = replace(method, progressive=stages)
    if isinstance(method.discretizer, Perturbation):
        method = replace(method, discretizer=replace(method.discretizer, tune_epochs=0, batches=1))
    if isinstance(method.discretizer, BestSampled):
        method = replace(method, discretizer=replace(method.discretizer, samples=3))
    if isinstance(method.discretizer, Evolved):
        method = replace(method, discretizer=replace(method.discretizer, population=2, rounds=2))
    return method


def check(result: ag.SearchResult, steps: Steps, relaxation: Relaxation) -> None:
    assert steps.count == 2
    for name, value in result.alpha.items():
        assert value.isfinite().all()
        assert relaxation.learns != torch.equal(value, steps.first[name])
    for weights in result.mixture.values():
        assert ((weights >= 0) & (weights <= 1)).all()
        if relaxation.on_simplex:
            rows = weights.sum(-1)
            torch.testing.assert_close(rows, (rows > 0).float())  # an edge that SGAS removes has no weight


@pytest.mark.parametrize(("recipe", "hypergradient"), methods_with_hypergradients())
def test_every_method_with_every_hypergradient(
    recipe: str, hypergradient: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_implicit, "_LARGEST", 100)
    sentence = refusal(recipe, hypergradient)

    def composed() -> tuple[ag.SearchResult, Steps]:
        method = replace(ag.recipes.named(recipe), hypergradient=ag.hypergradients.HYPERGRADIENTS.create(hypergradient))
        return searched(shortened(method))

    if sentence is None:
        check(*composed(), ag.recipes.named(recipe).relaxation)
        return
    monkeypatch.setattr("archgrad.loop.steps.Stepper.weight_step", _fail)
    with pytest.raises(UserError, match=sentence):
        composed()


def _fail(*args: object) -> None:
    raise AssertionError("training began")


@pytest.mark.parametrize("hypergradient", [name for name in HYPERGRADIENTS if name != "exact-implicit"])
def test_every_hypergradient_with_operations_on_nodes(hypergradient: str) -> None:
    method = replace(ag.recipes.darts(), hypergradient=ag.hypergradients.HYPERGRADIENTS.create(hypergradient))
    check(*searched(method, "nasbench1shot1-3"), method.relaxation)


DIFFERENTIATED = ("neumann", "unrolled", "amended")
"""Twice: a hypergradient asks a relaxation for no more than these do."""


@pytest.mark.parametrize(
    ("relaxation", "space", "hypergradient"),
    [
        (relaxation, space, hypergradient)
        for place, relaxation in enumerate(RELAXATIONS)
        for space, turn in (("tiny", 0), ("nasbench1shot1-3", 1))
        for hypergradient in ("first-order", DIFFERENTIATED[(place + turn) % 3])
    ],
)
def test_every_relaxation_with_partial_channels_and_edge_weights(
    relaxation: str, space: str, hypergradient: str
) -> None:
    member = RELAXATIONS[relaxation]
    method = replace(
        ag.recipes.pc_darts(),
        relaxation=member,
        arch_optimizer=Adam() if member.domain == "real" else MirrorDescent("euclidean", lr=1e-3),
        hypergradient=ag.hypergradients.HYPERGRADIENTS.create(hypergradient),
    )
    check(*searched(method, space), member)


@pytest.mark.parametrize(("recipe", "space"), recipes_in_spaces())
def test_every_recipe_takes_real_steps_in_every_kind_of_space(recipe: str, space: str) -> None:
    method = shortened(ag.recipes.named(recipe))
    check(*searched(method, space), method.relaxation)


@pytest.mark.parametrize("recipe", ALIGNED)
def test_alignment_is_refused_where_every_cell_decides_alone(recipe: str) -> None:
    with pytest.raises(UserError, match="in this space no two do; search with more cells, or in a space that repeats"):
        searched(shortened(ag.recipes.named(recipe)), "amended-a2")


@pytest.mark.parametrize("discretizer", DISCRETIZERS)
@pytest.mark.parametrize("recipe", ["darts", "gaea-simultaneous", "pc-darts", "gdas", "random-nas"])
def test_every_discretizer_ends_searches_of_every_kind(recipe: str, discretizer: str) -> None:
    method = shortened(replace(ag.recipes.named(recipe), discretizer=ag.discretizers.DISCRETIZERS.create(discretizer)))
    check(*searched(method), method.relaxation)
