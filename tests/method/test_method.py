from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest
import torch
from listening import listening

import archgrad as ag
from archgrad.arch_optimizers import Adam, ExponentiatedGradient
from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.hypergradients import FirstOrder, Neumann
from archgrad.method.bundle import Method, SupernetOptions
from archgrad.recipes import RECIPES, darts, gaea, named
from archgrad.regularizers import BetaDecay, EntropyTerm, LayerAlignment
from archgrad.relaxations import Softmax
from archgrad.relaxations.base import Domain
from archgrad.spaces import SearchSpace
from archgrad.training.schedule import Level


@dataclasses.dataclass(frozen=True)
class OnSimplex(Adam):
    """Stands in for an optimizer of another domain."""

    domain: ClassVar[Domain] = "simplex"


def test_parts_of_two_domains_are_refused_before_anything_runs() -> None:
    with pytest.raises(
        UserError, match=r"Softmax keeps .* in the 'real' domain, but OnSimplex moves them in the 'simp"
    ):
        dataclasses.replace(darts(), arch_optimizer=OnSimplex())


@dataclasses.dataclass(frozen=True)
class KeepsTwoEdges(Argmax):
    """Stands in for a discretizer that cannot derive from every space."""

    def check(self, space: SearchSpace) -> None:
        if any(block.keep != 2 for block in space.blocks):
            raise UserError(f"KeepsTwoEdges does not fit the space {space.name!r}; use Argmax().")


def test_a_discretizer_that_does_not_fit_is_refused_before_training() -> None:
    method = dataclasses.replace(darts(), discretizer=KeepsTwoEdges())
    method.check(ag.spaces.DARTS())
    with pytest.raises(UserError, match="does not fit the space 'nasbench201'"):
        method.check(ag.spaces.NASBench201())

    def fail(event: object) -> None:
        raise AssertionError("training began")

    space = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
    with pytest.raises(UserError, match="does not fit the space 'nasbench201'"):
        ag.search(space, method, ag.data.digits(limit=20), epochs=1, callbacks=listening(fail))


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
    method.check(ag.spaces.DARTS())


@pytest.mark.parametrize("base", ["darts", "pc_darts", "gdas"])
@pytest.mark.parametrize("level", ["bilevel", "single"])
def test_gaea_is_a_change_of_its_base(base: str, level: Level) -> None:
    method, plain = gaea(base, level), named(base.replace("_", "-"))
    assert method.arch_optimizer == ExponentiatedGradient(lr=0.1)
    assert method.relaxation.domain == "simplex"
    assert method.relaxation.sampled == plain.relaxation.sampled
    assert method.schedule.level == level
    assert (method.supernet, method.discretizer) == (plain.supernet, plain.discretizer)
    assert gaea(base, hypergradient=Neumann(2)).hypergradient == Neumann(2)


def test_methods_are_values() -> None:
    one, other = ({"epochs": 2, "lr": 0.1}, {"lr": 0.1, "epochs": 2})
    first, second = (dataclasses.replace(gaea(), weights=training) for training in (one, other))
    assert (first, hash(first), repr(first)) == (second, hash(second), repr(second))
    assert gaea("gdas", "single").name == "gaea-gdas-single"
    assert gaea("gdas", "single", updates="random").name == "gaea-gdas-single-random"


def test_an_unknown_base_of_gaea_is_explained() -> None:
    with pytest.raises(UserError, match="unknown base of GAEA: 'pc-darts'; did you mean 'pc_darts'"):
        gaea("pc-darts")


def test_a_method_changes_the_settings_of_the_weights() -> None:
    space = ag.spaces.DARTS()
    trained = ag.recipes.pc_darts().trained(space.weights)
    assert (trained.batch_size, trained.lr, trained.lr_min) == (256, 0.1, 0.0)
    assert trained.weight_decay == space.weights.weight_decay
    with pytest.raises(UserError, match=r"weights.lr is -1"):
        dataclasses.replace(darts(), weights={"lr": -1})
    with pytest.raises(UserError, match=r"unknown setting in the method's weights: 'lrr'; did you mean 'lr'"):
        dataclasses.replace(darts(), weights={"lrr": 0.1})


def test_options_of_the_supernet_are_given_in_one_place() -> None:
    options = ag.recipes.pc_darts().supernet_options(ag.spaces.DARTS())
    assert (options.partial, options.edge_weights, options.drop_path) == (4, True, 0.0)
    with pytest.raises(
        UserError, match=r"supernet.partial is 4, which does not divide the 6 channels of the space 'da"
    ):
        ag.recipes.pc_darts().check(ag.spaces.DARTS(channels=6))
    with pytest.raises(UserError, match=r"supernet.partial is 0; it must be at least 1"):
        SupernetOptions(partial=0)
    with pytest.raises(UserError, match=r"supernet.edge_weights is 1; it must be true or false"):
        SupernetOptions(edge_weights=1)  # type: ignore[arg-type]


class OwnEntropy(EntropyTerm):
    """A regularizer of the user's own, which no name on the command line stands for."""


def test_a_kind_of_regularizer_comes_once() -> None:
    for pair in [(LayerAlignment(), LayerAlignment("sign")), (EntropyTerm(0.1), BetaDecay(), EntropyTerm(0.2))]:
        with pytest.raises(UserError, match=r"is among the regularizers twice, .* '(layer-alignment|entropy)'; leave"):
            dataclasses.replace(darts(), regularizers=pair)
    with pytest.raises(UserError, match="LayerAlignment is among the regularizers twice"):
        ag.recipes.lambda_darts(base=ag.recipes.lambda_darts())
    own = (OwnEntropy(0.1), EntropyTerm(0.1), OwnEntropy(0.2))
    assert dataclasses.replace(darts(), regularizers=own).regularizers == own


def test_every_recipe_says_what_it_is() -> None:
    sentences = {str(recipe.__doc__).splitlines()[0] for recipe in RECIPES.values()}
    assert len(sentences) == len(RECIPES)
    assert all(sentence.endswith(".") for sentence in sentences)


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
