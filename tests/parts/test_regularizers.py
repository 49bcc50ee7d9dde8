"""One suite that every regularizer passes; a new one is in it by its name, and other settings are a row of MEMBERS."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import pytest
import torch
from torch import Tensor

from archgrad.regularizers import (
    REGULARIZERS,
    AdversarialPerturbation,
    CostPenalty,
    DecisionStep,
    EntropyTerm,
    Flooding,
    GreedyDecisions,
    LayerAlignment,
    OperationStopping,
    OuterStep,
    PerturbStep,
    Regularizer,
    WeightStep,
    name_of,
)
from archgrad.relaxations import DecidedRows
from archgrad.spaces import DecisionBlock, NASBench201, Row
from archgrad.spaces.choice_costs import ChoiceCosts
from archgrad.spaces.cost_model import CostModel, NetworkShape

BLOCK = DecisionBlock("cell", 2, tuple(Row(target, 0, ("a", "b", "c")) for target in range(1, 5)))
MODEL = CostModel(
    NASBench201(),
    "params",
    NetworkShape(),
    ChoiceCosts((BLOCK,), 1.0, {"cell": torch.arange(12.0).double().view(4, 3)}),
)
NAMED: dict[str, Regularizer] = {name: REGULARIZERS.create(name) for name in REGULARIZERS}
MEMBERS: dict[str, Regularizer] = {
    "nothing": Regularizer(),
    **NAMED,
    "flooding-high": Flooding(1e3),
    "operation-stopping-at-once": OperationStopping(1.0, 1, "validation"),
    "greedy-decisions-at-once": GreedyDecisions(0.0, 0.0),
    "entropy-negative": EntropyTerm(-0.1),
    "layer-alignment-exact": LayerAlignment(difference="exact", schedule="constant"),
    "layer-alignment-interleaved": LayerAlignment(difference="interleaved", schedule="constant"),
    "layer-alignment-sign": LayerAlignment("sign"),
    "layer-alignment-outer": LayerAlignment(objective="outer"),
    "adversarial-perturbation-once": AdversarialPerturbation(steps=1),
    "cost-penalty-bound": CostPenalty("params", 1.0, model=MODEL),
}
every_named = pytest.mark.parametrize("name", REGULARIZERS)
every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
Tensors = dict[str, Tensor]


def alpha_and_mixture() -> tuple[Tensors, Tensors]:
    alpha = {"cell": torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()}
    return alpha, {"cell": alpha["cell"].softmax(-1).expand(2, -1, -1)}


def outer_step(progress: float) -> OuterStep:
    alpha, mixture = alpha_and_mixture()
    value = loss({"w": torch.ones(3)}, mixture)
    return OuterStep((BLOCK,), alpha, {"cell": mixture["cell"][0]}, mixture, progress, value)


def loss(weights: Tensors, mixture: Tensors) -> Tensor:
    return (weights["w"] * mixture["cell"].sum((0, 1))).sin().sum()


def weight_step(member: Regularizer, progress: float) -> WeightStep:
    weights = {"w": torch.randn(3, generator=torch.Generator().manual_seed(1)).requires_grad_()}
    mixture = {name: value.detach().clone().requires_grad_() for name, value in alpha_and_mixture()[1].items()}
    value = loss(weights, mixture)
    inputs, graph = [weights["w"], mixture["cell"]], member.differentiates_gradient
    of_weights, slope = torch.autograd.grad(value, inputs, create_graph=graph)
    slopes = {"cell": slope} if member.needs_mixture_gradient else None
    step = WeightStep(loss, (BLOCK,), weights, value.detach(), {"w": of_weights.detach()}, mixture, slopes, progress, 0)
    watched = {"outer_gradient": {"w": of_weights.detach().flip(0)}, "operations": {"w": ("w",)}}
    return replace(step, **watched) if member.watches else step  # type: ignore[arg-type]


def perturb_step(mixture: Tensors, progress: float) -> PerturbStep:
    weights = {"w": torch.randn(3, generator=torch.Generator().manual_seed(1))}
    return PerturbStep(
        (BLOCK,), mixture, lambda given: loss(weights, given), progress, torch.Generator().manual_seed(3)
    )


@every_member
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_outer_terms_are_scalars_of_alpha(member: Regularizer, progress: float) -> None:
    step = outer_step(progress)
    term = member.outer_term(step)
    if term is not None:
        assert term.shape == ()
        (gradient,) = torch.autograd.grad(term, [step.alpha["cell"]], allow_unused=True, materialize_grads=True)
        assert gradient.isfinite().all()


@every_member
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_perturbed_mixtures_have_their_shape_and_follow_the_stream(member: Regularizer, progress: float) -> None:
    mixture = {name: value.detach() for name, value in alpha_and_mixture()[1].items()}
    before = {name: value.clone() for name, value in mixture.items()}
    state = torch.get_rng_state()
    first, second = (member.perturb(perturb_step(mixture, progress)) for _ in range(2))
    for name, value in mixture.items():
        assert first[name].shape == value.shape
        assert torch.equal(first[name], second[name])
        assert torch.equal(value, before[name])
    assert torch.equal(state, torch.get_rng_state())


@every_member
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_weight_gradients_are_like_the_weights(member: Regularizer, progress: float) -> None:
    step = weight_step(member, progress)
    before = {name: value.detach().clone() for name, value in step.weights.items()}
    extra = member.weight_gradient(step)
    for name, value in (extra or {}).items():
        assert value.shape == step.weights[name].shape
        assert value.isfinite().all()
    for name, value in step.weights.items():
        assert torch.equal(value, before[name])
        assert value.grad is None


@every_member
def test_what_is_added_to_a_mixture_is_a_constant_of_alpha(member: Regularizer) -> None:
    alpha, mixture = alpha_and_mixture()
    factors = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(5))
    seen = member.perturb(perturb_step(mixture, 0.5))
    (found,) = torch.autograd.grad((seen["cell"] * factors).sum(), [alpha["cell"]], retain_graph=True)
    (plain,) = torch.autograd.grad((mixture["cell"] * factors).sum(), [alpha["cell"]])
    torch.testing.assert_close(found, plain)


@every_member
def test_perturbing_needs_no_gradient_mode_and_leaves_none(member: Regularizer) -> None:
    with torch.no_grad():
        mixture = alpha_and_mixture()[1]
        quiet = member.perturb(perturb_step(mixture, 0.5))
        assert not torch.is_grad_enabled()
    assert not quiet["cell"].requires_grad
    assert torch.equal(quiet["cell"], member.perturb(perturb_step(mixture, 0.5))["cell"])


@every_member
def test_watching_is_a_pure_function_of_the_step_and_the_state(member: Regularizer) -> None:
    step, begun = weight_step(member, 0.5), member.init(("w",))
    before = {name: value.clone() for name, value in begun.items()}
    (first, stopped), (second, again) = (member.watch(step, begun) for _ in range(2))
    assert first.keys() == second.keys() == begun.keys()
    for name, value in begun.items():
        assert torch.equal(value, before[name])
        assert torch.equal(first[name], second[name])
        assert (first[name].shape, first[name].dtype) == (value.shape, value.dtype)
        assert first[name].device.type == "cpu"
    assert list(stopped) == list(again)
    assert set(stopped) <= {"w"}
    assert bool(begun) == member.watches


@every_member
def test_decisions_are_for_good_and_the_same_when_asked_again(member: Regularizer) -> None:
    decided = DecidedRows()
    for epoch in range(1, 5):
        rows = torch.rand(4, 3, generator=torch.Generator().manual_seed(epoch)).softmax(-1)
        step = DecisionStep((BLOCK,), {"cell": rows}, decided, epoch, 4)
        found = member.decide(step)
        again = member.decide(replace(step, decided=found))
        for name, marks in found.marks.items():
            earlier = decided.marks.get(name, torch.zeros_like(marks))
            assert not (earlier & ~marks).any()
            assert torch.equal(found.weights[name][earlier], decided.weights.get(name, rows)[earlier])
            assert torch.equal(again.marks[name], marks)
            assert torch.equal(again.weights[name], found.weights[name])
        decided = found


@every_named
def test_a_name_stands_for_a_frozen_value_of_plain_knobs(name: str) -> None:
    member = NAMED[name]
    assert name_of(member) == name
    assert is_dataclass(member)
    again = REGULARIZERS.create(name)
    assert (member, hash(member), repr(member)) == (again, hash(again), repr(again))
    assert " at 0x" not in repr(member)
    assert type(member).__doc__
    for knob in fields(member):
        with pytest.raises(FrozenInstanceError):
            setattr(member, knob.name, getattr(member, knob.name))


def test_a_regularizer_does_nothing_unless_it_says_so() -> None:
    mixture = alpha_and_mixture()[1]
    nothing = Regularizer()
    assert nothing.outer_term(outer_step(0.5)) is None
    assert nothing.perturb(perturb_step(mixture, 0.5)) is mixture
    assert nothing.weight_gradient(weight_step(nothing, 0.5)) is None
    assert not nothing.needs_mixture_gradient
