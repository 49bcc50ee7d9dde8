from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest
import torch

import archgrad as ag
from archgrad.arch_optimizers import Adam
from archgrad.discretizers import Argmax, TopEdges
from archgrad.errors import UserError
from archgrad.hypergradients import FirstOrder
from archgrad.method import Method
from archgrad.recipes import RECIPES, darts, named
from archgrad.relaxations import Softmax
from archgrad.relaxations.base import Domain


@dataclasses.dataclass(frozen=True)
class OnSimplex(Adam):
    """Stands in for an optimiser of another domain."""

    domain: ClassVar[Domain] = "simplex"


def test_parts_of_two_domains_are_refused_before_anything_runs() -> None:
    with pytest.raises(
        UserError, match=r"Softmax keeps .* in the 'real' domain, but OnSimplex moves them in the 'simp"
    ):
        dataclasses.replace(darts(), arch_optimizer=OnSimplex())


def test_a_discretiser_that_does_not_fit_is_refused_before_training() -> None:
    method = dataclasses.replace(darts(), discretizer=TopEdges())
    method.check(ag.spaces.darts())
    with pytest.raises(UserError, match="does not fit the space 'nasbench201'"):
        method.check(ag.spaces.nasbench201())

    def fail(event: object) -> None:
        raise AssertionError("training began")

    space = ag.spaces.nasbench201(channels=2, cells_per_stage=1)
    with pytest.raises(UserError, match="does not fit the space 'nasbench201'"):
        ag.search(space, method, ag.data.digits(limit=20), epochs=1, listeners=[fail])


def test_parts_are_given_by_name() -> None:
    method = Method(relaxation=Softmax(), hypergradient=FirstOrder(), arch_optimizer=Adam(), discretizer=Argmax())
    assert method.name == "custom"
    assert method.regularizers == ()
    with pytest.raises(TypeError):
        Method(Softmax(), FirstOrder(), Adam(), Argmax())  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_methods_of_their_name(name: str) -> None:
    method = named(name)
    assert method.name == name
    assert method == RECIPES[name]()
    assert repr(method) == repr(named(name))  # what a checkpoint compares
    method.check(ag.spaces.darts())


def test_first_order_darts_as_published() -> None:
    method = darts()
    assert method.relaxation == Softmax(init_scale=1e-3)
    assert method.hypergradient == FirstOrder()
    assert method.arch_optimizer == Adam(lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3)
    assert method.discretizer == Argmax()


def test_unknown_recipes_are_explained() -> None:
    with pytest.raises(UserError, match="unknown method 'dart'; did you mean 'darts'"):
        named("dart")


def test_bilevel_problems_need_not_be_about_architectures() -> None:
    problem = ag.BilevelProblem(
        inner=lambda w, a, x: (w["w"] - a["a"] * x).square().sum(),
        outer=lambda w, a, x: (w["w"] * x).square().sum() + a["a"].square().sum(),
    )
    weights, alpha = {"w": torch.tensor(2.0)}, {"a": torch.tensor(3.0)}
    gradient = FirstOrder()(problem, weights, alpha, None, torch.tensor(1.0))
    assert gradient["a"].item() == 6.0
