"""A relaxation from outside of the package whose rows do not sum to one, such as FairDARTS' sigmoid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from tiny_space import Tiny

import archgrad as ag
from archgrad.arch_optimizers import ExponentiatedGradient
from archgrad.discretizers import Argmax, BestSampled, LimitedSkips
from archgrad.errors import UserError
from archgrad.regularizers import AdversarialPerturbation, EntropyTerm, LayerAlignment, RandomPerturbation
from archgrad.relaxations import Domain, Relaxation
from archgrad.spaces import DecisionBlock

DATA = ag.data.digits(limit=64)


@dataclass(frozen=True)
class Sigmoid(Relaxation):
    """p = σ(α), each choice by itself (FairDARTS, Chu et al., 2020)."""

    domain: ClassVar[Domain] = "real"
    on_simplex: ClassVar[bool] = False

    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Any:
        return {block.name: 0.1 * torch.randn(block.shape, generator=generator) * block.mask for block in blocks}

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Any) -> Any:
        return {block.name: alpha[block.name].sigmoid() * block.mask for block in blocks}


@dataclass(frozen=True)
class Undeclared(Sigmoid):
    on_simplex: ClassVar[bool] = True


@dataclass(frozen=True)
class Drawing(Argmax):
    """A discretizer that says what it needs."""

    needs_simplex: ClassVar[bool] = True


def search(**parts: Any) -> ag.SearchResult:
    method = replace(ag.recipes.darts(), **{"relaxation": Sigmoid(), **parts})
    return ag.search(Tiny(channels=2, cells_per_stage=1), method, DATA, epochs=1, batch_size=16)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"regularizers": (LayerAlignment(),)},
        {"discretizer": BestSampled(samples=3)},
        {"discretizer": LimitedSkips(most=1)},
        {"supernet": ag.SupernetOptions(partial=2, edge_weights=True)},
    ],
    ids=["darts", "layer-alignment", "best-sampled", "limited-skips", "edge-weights"],
)
def test_a_search_needs_no_simplex(parts: dict[str, Any]) -> None:
    result = search(**parts)
    assert bool((result.alpha["cell"].sigmoid().sum(-1) > 1.2).all())
    assert "entropy" not in result.history[0]
    assert result.history[0]["lead"] > 0


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"regularizers": (EntropyTerm(),)}, "EntropyTerm"),
        ({"regularizers": (RandomPerturbation(),)}, "RandomPerturbation"),
        ({"regularizers": (AdversarialPerturbation(),)}, "AdversarialPerturbation"),
        ({"discretizer": Drawing()}, "Drawing"),
        ({"discretizer": LimitedSkips(Drawing())}, "LimitedSkips"),
        ({"supernet": ag.SupernetOptions(partial=2)}, "supernet.partial"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_rows_that_sum_to_one_says_so_before_training(parts: dict[str, Any], name: str) -> None:
    with pytest.raises(UserError, match=rf"{name}.* sum to one, .*Sigmoid.*; leave {name}.* Softmax"):
        replace(ag.recipes.darts(), relaxation=Sigmoid(), **parts)


def test_exponentiated_gradient_needs_alpha_on_the_simplex() -> None:
    with pytest.raises(UserError, match=r"Sigmoid keeps .* 'real' domain, but ExponentiatedGradient .* 'simplex'"):
        replace(ag.recipes.darts(), relaxation=Sigmoid(), arch_optimizer=ExponentiatedGradient())


def test_a_relaxation_that_does_not_declare_it_is_told() -> None:
    with pytest.raises(UserError, match=r"Undeclared.probabilities returned rows in 'cell' .* on_simplex = False"):
        search(relaxation=Undeclared())
