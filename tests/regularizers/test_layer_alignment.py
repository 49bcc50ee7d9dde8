"""Layer alignment: its value, its direction and its gradient against definitions, by hand and by brute force."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from seeded import randn
from torch import Tensor
from torch.func import functional_call

import archgrad as ag
from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.frozen_activations import ActivationPattern
from archgrad.autodiff.vectors import added, cosine, norm, scaled
from archgrad.config import SearchConfig
from archgrad.errors import UserError
from archgrad.loop.experiment import Experiment
from archgrad.loop.loaders import StepBatches
from archgrad.regularizers import LayerAlignment, OuterStep, WeightStep
from archgrad.regularizers.gradient_alignment import Kind, aligned_blocks, alignment, directions, pairs
from archgrad.relaxations import Softmax
from archgrad.spaces import DARTS, DecisionBlock, NASBench201, Row

Tensors = dict[str, Tensor]
KINDS: tuple[Kind, ...] = ("cosine", "sign")
LABELS = torch.tensor([0, 1, 2, 0])
SPACES = {
    "nasbench201": NASBench201(channels=2, cells_per_stage=1),
    "darts": DARTS(channels=2, cells=4),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_space = pytest.mark.parametrize("name", SPACES)


def block(cells: int, rows: int = 2, choices: int = 2) -> DecisionBlock:
    names = tuple("abcd"[:choices])
    return DecisionBlock("cell", cells, tuple(Row(1, source, names) for source in range(rows)))


def defined(gradients: Tensor, kind: Kind) -> Tensor:
    """The mean over pairs, as the paper writes it (Eq. 5 and 7)."""
    cells = gradients.flatten(1)
    found = []
    for g, h in combinations(cells, 2):
        found.append(g @ h / (g.norm() * h.norm() if kind == "cosine" else g.abs() @ h.abs()))
    return torch.stack(found).mean()


@every_kind
@pytest.mark.parametrize("cells", [2, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_direction_are_those_of_the_definition(kind: Kind, cells: int, seed: int) -> None:
    gradients = randn(cells, 2, 3, seed=seed).requires_grad_()
    blocks = [block(cells, choices=3)]
    expected = defined(gradients, kind)
    (slope,) = torch.autograd.grad(expected * pairs(blocks), gradients)
    value = alignment({"cell": gradients}, blocks, kind)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(directions({"cell": gradients}, blocks, kind)["cell"], slope, rtol=1e-10, atol=1e-12)
    (own,) = torch.autograd.grad(value * pairs(blocks), gradients)
    torch.testing.assert_close(own, slope, rtol=1e-10, atol=1e-12)


def test_two_cells_by_hand() -> None:
    gradients = {"cell": torch.tensor([[[2.0, 0.0]], [[3.0, 3.0]]])}
    blocks = [block(2, rows=1)]
    assert alignment(gradients, blocks, "cosine").item() == pytest.approx(1 / math.sqrt(2))
    assert alignment(gradients, blocks, "sign").item() == pytest.approx(1.0)
    found = directions(gradients, blocks, "cosine")["cell"].flatten(1)
    # (I − uuᵀ)·u′/‖g‖ with u = (1, 0), u′ = (1, 1)/√2, ‖g‖ = 2; and with the two exchanged, ‖g‖ = 3√2
    expected = torch.tensor([[0.0, 1 / math.sqrt(8)], [1 / (6 * math.sqrt(2)), -1 / (6 * math.sqrt(2))]])
    torch.testing.assert_close(found, expected.double())


@every_kind
@pytest.mark.parametrize("factor", [0.0, 1e-38, 1e-30, 1e-15])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vanished_gradient_counts_as_no_agreement_and_gets_no_direction(
    kind: Kind, factor: float, dtype: torch.dtype
) -> None:
    gradients = randn(3, 2, 3, seed=0).to(dtype)
    gradients[1] *= factor
    blocks = [block(3, choices=3)]
    value, found = alignment({"cell": gradients}, blocks, kind), directions({"cell": gradients}, blocks, kind)["cell"]
    assert value.item() == pytest.approx(defined(gradients[[0, 2]].double(), kind).item() / 3)
    assert found.isfinite().all()
    assert not found[1].any()


def test_pairs_are_counted_over_all_blocks() -> None:
    first, second = block(3), replace(block(2), name="other")
    gradients = {"cell": randn(3, 2, 2, seed=0), "other": randn(2, 2, 2, seed=1)}
    expected = (3 * defined(gradients["cell"], "cosine") + defined(gradients["other"], "cosine")) / 4
    torch.testing.assert_close(alignment(gradients, [first, second], "cosine"), expected)


class Network(NamedTuple):
    """A supernet in float64, and the loss of a batch."""

    net: torch.nn.Module
    blocks: Sequence[DecisionBlock]
    alpha: Tensors

    @property
    def weights(self) -> Tensors:
        return dict(self.net.named_parameters())

    @property
    def mixture(self) -> Tensors:
        relaxed = Softmax().relax(self.blocks, self.alpha, None, 0.0).mixture
        return {name: value.detach().clone().requires_grad_() for name, value in relaxed.items()}

    def loss(self, weights: Tensors, mixture: Tensors) -> Tensor:
        images = randn(4, 3, 8, 8, seed=7)
        return F.cross_entropy(functional_call(self.net, weights, (images, mixture)), LABELS)


@functools.cache
def network_of(name: str) -> Network:
    space = SPACES[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = space.supernet(num_classes=3).double()
    alpha = Softmax(init_scale=0.5).init(space.blocks, torch.Generator().manual_seed(1))
    return Network(net, space.blocks, {name: value.double() for name, value in alpha.items()})


def brute_force(network: Network, kind: Kind) -> Tensors:
    """∇wΛ by differentiating the definition, pair by pair."""
    mixture, weights = network.mixture, network.weights
    blocks = aligned_blocks(network.blocks)
    with TwiceDifferentiable():
        loss = network.loss(weights, mixture)
    slopes = torch.autograd.grad(loss, [mixture[b.name] for b in blocks], create_graph=True)
    value = torch.stack([defined(slope, kind) for slope in slopes]).mean()  # one block each
    assert len(blocks) == 1
    found = torch.autograd.grad(value, list(weights.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(weights, found, strict=True))


def step_of(network: Network, member: LayerAlignment, index: int = 0) -> WeightStep:
    mixture, weights, pattern = network.mixture, network.weights, ActivationPattern()

    def loss(weights: Tensors, mixture: Tensors) -> Tensor:
        if not member.freezes_kinks:
            return network.loss(weights, mixture)
        return pattern.evaluate(lambda: network.loss(weights, mixture))

    with TwiceDifferentiable():
        value = loss(weights, mixture)
    inputs = [*weights.values(), *mixture.values()]
    found = torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True, materialize_grads=True)
    gradient = {name: one.detach() for name, one in zip(weights, found, strict=False)}
    slopes = dict(zip(mixture, found[len(weights) :], strict=True))
    if not member.differentiates_gradient:
        slopes = {name: slope.detach() for name, slope in slopes.items()}
    return WeightStep(loss, network.blocks, weights, value.detach(), gradient, mixture, slopes, 0.5, index)


def added_by(network: Network, index: int = 0, **knobs: Any) -> Tensors:
    """∇wΛ as the part computes it."""
    member = LayerAlignment(weight=1.0, schedule="constant", **knobs)
    found = member.weight_gradient(step_of(network, member, index))
    assert found is not None
    return scaled(found, -1.0)


@functools.cache
def exact_of(name: str, kind: Kind) -> Tensors:
    return added_by(network_of(name), kind=kind, difference="exact")


@every_kind
@every_space
def test_the_exact_gradient_is_that_of_a_brute_force_double_backward(kind: Kind, name: str) -> None:
    expected, found = brute_force(network_of(name), kind), exact_of(name, kind)
    assert norm(added(found, expected, -1.0)) < 1e-9 * norm(expected)


@pytest.mark.parametrize(("kind", "name"), [("cosine", "nasbench201"), ("sign", "nasbench201"), ("cosine", "darts")])
def test_the_error_of_central_differences_falls_as_the_square_of_eps(kind: Kind, name: str) -> None:
    network = network_of(name)
    exact = exact_of(name, kind)
    errors = [
        norm(added(added_by(network, kind=kind, difference="central", eps=eps), exact, -1.0))
        for eps in (4e-3, 2e-3, 1e-3)
    ]
    assert errors[2] < 1e-3 * norm(exact)
    for coarse, fine in pairwise(errors):
        assert 3.6 < coarse / fine < 4.4


@every_space
def test_interleaved_differences_take_turns_and_their_mean_is_central(name: str) -> None:
    network = network_of(name)
    central = added_by(network, difference="central", eps=1e-3)
    forward, backward = (added_by(network, index, difference="interleaved", eps=1e-3) for index in (0, 1))
    assert norm(added(forward, backward, -1.0)) > 0
    mean = scaled(added(forward, backward), 0.5)
    assert norm(added(mean, central, -1.0)) < 1e-8 * norm(central)
    again = added_by(network, 2, difference="interleaved", eps=1e-3)
    assert all(torch.equal(again[key], forward[key]) for key in forward)


@pytest.mark.parametrize(("index", "sign"), [(0, 1), (1, -1)])
def test_interleaved_differences_begin_with_the_forward_one(index: int, sign: int) -> None:
    member = LayerAlignment(weight=1.0, difference="interleaved", eps=1e-3)
    step = step_of(network_of("nasbench201"), member, index)
    delta = directions(step.mixture_gradient or {}, aligned_blocks(step.blocks), "cosine")["cell"]
    seen: list[Tensor] = []
    member.weight_gradient(
        replace(step, loss=lambda w, mixture: (seen.append(mixture["cell"]), step.loss(w, mixture))[1])
    )
    (shift,) = (one - step.mixture["cell"] for one in seen)
    torch.testing.assert_close(shift, sign * 1e-3 * delta / delta.norm())


@pytest.mark.parametrize("eps", [1e-2, 1e-3])
def test_differences_that_cross_kinks_are_not_the_gradient_of_the_alignment(eps: float) -> None:
    network = network_of("nasbench201")
    exact = added_by(network, difference="exact")
    frozen = added_by(network, difference="central", eps=eps)
    crossed = added_by(network, difference="central", eps=eps, kinks="crossed")
    assert cosine(frozen, exact) > 0.9999
    assert norm(added(crossed, exact, -1.0)) > 10 * norm(added(frozen, exact, -1.0))


def test_the_strength_grows_with_the_search_or_is_constant() -> None:
    assert [LayerAlignment(weight=0.4).strength(t, 4) for t in (1, 2, 3, 4)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert LayerAlignment(weight=0.4, schedule="constant").strength(1, 4) == 0.4
    member = LayerAlignment()
    step = step_of(network_of("nasbench201"), member)
    assert LayerAlignment(weight=0.0).weight_gradient(step) is None
    first, second = (member.weight_gradient(replace(step, epoch=epoch, epochs=5)) for epoch in (1, 2))
    assert first is not None
    assert second is not None
    assert norm(second) == pytest.approx(2 * norm(first), rel=1e-12)


@pytest.mark.parametrize("objective", ["inner", "outer"])
def test_the_strength_is_constant_within_an_epoch(monkeypatch: pytest.MonkeyPatch, objective: Any) -> None:
    """λ_t = λ·t/T, with t the number of the epoch and T that of all (Section 4.1)."""
    seen, strength = [], LayerAlignment.strength

    def watched(self: LayerAlignment, epoch: int, epochs: int) -> float:
        seen.append(strength(self, epoch, epochs))
        return seen[-1]

    monkeypatch.setattr(LayerAlignment, "strength", watched)
    method = replace(ag.recipes.darts(), regularizers=(LayerAlignment(weight=0.6, objective=objective),))
    ag.search(TINY, method, DATA, epochs=3, batch_size=8, seed=0)
    assert sorted(set(seen)) == pytest.approx([0.2, 0.4, 0.6])
    assert seen == sorted(seen)
    assert all(seen.count(value) > 1 for value in set(seen))


def test_cells_that_all_agree_or_all_vanish_add_nothing() -> None:
    member = LayerAlignment(schedule="constant")
    step = step_of(network_of("nasbench201"), member)
    assert step.mixture_gradient is not None
    nothing = {name: torch.zeros_like(value) for name, value in step.mixture_gradient.items()}
    assert member.weight_gradient(replace(step, mixture_gradient=nothing)) is None


def test_reduction_cells_are_left_out_unless_named() -> None:
    blocks = DARTS(channels=2, cells=4).blocks
    assert [one.name for one in aligned_blocks(blocks)] == ["normal"]
    assert [one.name for one in aligned_blocks(blocks, ("reduce", "normal"))] == ["reduce", "normal"]
    weighed = DARTS(channels=2, cells=4).searched_blocks(ag.SupernetOptions(edge_weights=True))
    assert [one.name for one in aligned_blocks(weighed)] == ["normal"]
    assert [one.name for one in aligned_blocks(weighed, ("normal.edges",))] == ["normal.edges"]


def test_spaces_without_two_cells_of_a_block_are_refused_before_training() -> None:
    method = ag.recipes.lambda_darts()
    with pytest.raises(UserError, match="aligns cells that share their decisions, but in this space no two do"):
        method.check(ag.spaces.AmendedA2(channels=2, cells=3))
    with pytest.raises(UserError, match="unknown block to align: 'normle'; did you mean 'normal'"):
        replace(method, regularizers=(LayerAlignment(blocks=("normle",)),)).check(DARTS(channels=2, cells=4))
    with pytest.raises(UserError, match="block 'normal' is used by one cell only"):
        replace(method, regularizers=(LayerAlignment(blocks=("normal",)),)).check(DARTS(channels=2, cells=3))


@every_kind
@every_space
def test_on_the_outer_objective_alpha_descends_the_alignment_of_the_outer_loss(kind: Kind, name: str) -> None:
    network, member = network_of(name), LayerAlignment(kind, 0.3, objective="outer", schedule="constant")
    blocks = aligned_blocks(network.blocks)

    def mixture_at(alpha: Tensors) -> Tensors:
        return Softmax().relax(network.blocks, alpha, None, 0.0).mixture

    def value_at(alpha: Tensors) -> float:
        mixture = {key: value.detach().clone().requires_grad_() for key, value in mixture_at(alpha).items()}
        found = torch.autograd.grad(network.loss(network.weights, mixture), [mixture[b.name] for b in blocks])
        return -0.3 * defined(found[0], kind).item()

    alpha = {key: value.clone().requires_grad_() for key, value in network.alpha.items()}
    mixture = mixture_at(alpha)
    with TwiceDifferentiable():
        loss = network.loss({key: value.detach() for key, value in network.weights.items()}, mixture)
    term = member.outer_term(OuterStep(network.blocks, alpha, {}, mixture, 0.5, loss))
    assert term is not None
    assert term.item() == pytest.approx(value_at(network.alpha), rel=1e-10)
    found = torch.autograd.grad(term, list(alpha.values()))
    direction = {key: randn(*value.shape, seed=3) for key, value in alpha.items()}
    expected = (
        value_at(added(network.alpha, direction, 1e-6)) - value_at(added(network.alpha, direction, -1e-6))
    ) / 2e-6
    slope = sum((one * direction[key]).sum().item() for key, one in zip(alpha, found, strict=True))
    assert slope == pytest.approx(expected, rel=1e-4)


def test_the_outer_objective_needs_an_outer_loss() -> None:
    outer = (LayerAlignment(objective="outer"),)
    with pytest.raises(UserError, match=r"LayerAlignment on the outer objective .* set schedule.updates=alternate"):
        replace(ag.recipes.gaea(updates="simultaneous"), regularizers=outer)
    assert not outer[0].needs_mixture_gradient
    assert outer[0].weight_gradient(step_of(network_of("nasbench201"), LayerAlignment())) is None
    assert LayerAlignment().outer_term(OuterStep((), {}, {}, {}, 0.5)) is None


DATA = ag.data.digits(limit=64)
TINY = ag.spaces.NASBench201(channels=2, cells_per_stage=1)


def after_a_step(method: ag.Method) -> tuple[Tensors, Tensors, Experiment]:
    setup = experiment_of(TINY, method, DATA, SearchConfig(epochs=2, batch_size=16, seed=0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = setup.initial_state()
    before = {name: value.detach().clone() for name, value in state.weights.items()}
    setup.stepper(state).weight_step(state, StepBatches(setup.weight_loader, setup.arch_loader, 0).inner(0))
    return before, {name: value.detach().clone() for name, value in state.weights.items()}, setup


@pytest.mark.parametrize("difference", ["exact", "central", "interleaved"])
def test_the_weight_step_descends_the_loss_minus_the_alignment(difference: Any) -> None:
    term = LayerAlignment(weight=0.5, schedule="constant", difference=difference, eps=1e-2)
    before, after, setup = after_a_step(replace(ag.recipes.darts(), regularizers=(term,)))
    net = setup.space.supernet(input_channels=1)
    net.load_state_dict(before)
    weights = dict(net.named_parameters())
    probabilities = Softmax().relax(setup.blocks, setup.first_alpha(), None, 0.0).mixture
    mixture = {name: value.detach().clone().requires_grad_() for name, value in probabilities.items()}
    batch = setup.weight_loader.batch(0)
    loss = F.cross_entropy(net(batch.inputs, mixture), batch.targets)
    (slope,) = torch.autograd.grad(loss, [mixture["cell"]], create_graph=True)
    whole = loss - 0.5 * defined(slope.double(), "cosine")
    sgd = torch.optim.SGD(weights.values(), lr=setup.weights.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    whole.backward()
    torch.nn.utils.clip_grad_norm_(weights.values(), setup.weights.clip)
    sgd.step()
    plain = after_a_step(ag.recipes.darts())[1]
    moved = added(after, plain, -1.0)
    expected = added({name: value.detach() for name, value in weights.items()}, plain, -1.0)
    assert norm(expected) > 1e-4
    assert norm(added(moved, expected, -1.0)) < 0.02 * norm(expected)
    assert cosine(moved, expected) > 0.999
