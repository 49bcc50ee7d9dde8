"""The hypergradient of every cell's own mixture, against dense derivatives of a small supernet in 64 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from seeded import randn
from tiny_space import Tiny
from torch import Tensor
from torch.func import functional_call

import archgrad as ag
from archgrad.autodiff.gradients import gradients, leaves
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.config import SearchConfig
from archgrad.data import Batch
from archgrad.diagnostics import layer_gradients
from archgrad.hypergradients import HYPERGRADIENTS, FirstOrder, Unrolled, evaluate_at
from archgrad.loop.loaders import StepBatches

Tensors = dict[str, Tensor]
SPACE = Tiny(channels=2, cells_per_stage=1)
GAMMA = 0.05
SECOND_ORDER = sorted({name for name in HYPERGRADIENTS if HYPERGRADIENTS.create(name).order == 2} - {"exact-implicit"})
"""Without the one that inverts the Hessian: that of a supernet with batch norms is singular."""


class Problem:
    """L1 and L2 of a supernet as functions of the weights and of every cell's mixture, each on its own images."""

    def __init__(self) -> None:
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            self.net = SPACE.supernet(ag.SupernetOptions(), num_classes=4).double()
        self.weights = {name: value.detach() for name, value in self.net.named_parameters()}
        self.mixture = {"cell": randn(3, 3, 3, seed=1).softmax(-1)}
        self.train, self.valid = (randn(6, 3, 8, 8, seed=seed) for seed in (2, 3))

    def loss(self, weights: Tensors, mixture: Tensors, images: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(self.net, weights, (images, mixture)), torch.arange(6) % 4)

    def estimate(self, hypergradient: ag.hypergradients.Hypergradient) -> Tensor:
        problem, descent = BilevelProblem(self.loss, self.loss), Descent(GAMMA)
        with evaluate_at(problem, self.weights, self.mixture, self.train, self.valid, descent) as point:
            return layer_gradients(point, hypergradient)["cell"]

    def step(self, mixture: Tensors) -> Tensors:
        """Return w' = w − γ·∂L1/∂w."""
        (slope,) = gradients(lambda: self.loss(weights, mixture, self.train), weights := leaves(self.weights))
        return {name: value - GAMMA * slope[name] for name, value in self.weights.items()}


def test_second_order_has_the_mixed_term_of_each_layer() -> None:
    """∂L2/∂p_ℓ(w') − γ·∂²L1/∂p_ℓ∂w·∂L2/∂w(w'), with the whole matrix of mixed derivatives."""
    problem = Problem()
    mixture, weights = leaves(problem.mixture), leaves(problem.weights)
    ahead = leaves(problem.step(problem.mixture))
    direct, of_weights = gradients(lambda: problem.loss(ahead, mixture, problem.valid), mixture, ahead)
    (slope,) = torch.autograd.grad(problem.loss(weights, mixture, problem.train), [mixture["cell"]], create_graph=True)
    rows = [torch.autograd.grad(entry, list(weights.values()), retain_graph=True) for entry in slope.flatten()]
    mixed = torch.stack([torch.cat([piece.flatten() for piece in row]) for row in rows])
    vector = torch.cat([of_weights[name].flatten() for name in weights])
    expected = direct["cell"] - GAMMA * (mixed @ vector).reshape(3, 3, 3)
    torch.testing.assert_close(problem.estimate(Unrolled()), expected, rtol=1e-9, atol=1e-12)
    share = (expected - direct["cell"]).flatten(1).norm(dim=1) / direct["cell"].flatten(1).norm(dim=1)
    assert (share > 1e-3).all(), "∂L2/∂p at w' alone is another gradient in every cell"


def test_it_is_the_derivative_of_the_loss_after_the_step() -> None:
    problem, eps = Problem(), 1e-6

    def after_step(at: int, shift: float) -> float:
        mixture = problem.mixture["cell"].clone()
        mixture.view(-1)[at] += shift
        return problem.loss(problem.step({"cell": mixture}), {"cell": mixture}, problem.valid).item()

    slopes = [(after_step(at, eps) - after_step(at, -eps)) / (2 * eps) for at in range(27)]
    expected = torch.tensor(slopes, dtype=torch.float64).reshape(3, 3, 3)
    torch.testing.assert_close(problem.estimate(Unrolled()), expected, rtol=1e-5, atol=1e-8)


def test_first_order_has_none() -> None:
    problem = Problem()
    (expected,) = gradients(
        lambda: problem.loss(problem.weights, mixture, problem.valid), mixture := leaves(problem.mixture)
    )
    torch.testing.assert_close(problem.estimate(FirstOrder()), expected["cell"])


class Doubled(StepBatches):
    """The batches of a step in 64 bits."""

    def inner(self, step: int) -> Batch:
        batch = super().inner(step)
        return Batch(batch.inputs.double(), batch.targets)

    def outer(self) -> Batch:
        batch = super().outer()
        return Batch(batch.inputs.double(), batch.targets)


@pytest.mark.parametrize("name", ["first-order", *SECOND_ORDER])
def test_the_relaxation_pulls_their_sum_back_to_the_gradient_of_alpha(name: str) -> None:
    """In a search with momentum, at α that is not even, where only the inner loss drops paths."""
    options = ag.SupernetOptions(drop_path=0.5)
    method = replace(ag.recipes.darts(), hypergradient=HYPERGRADIENTS.create(name), supernet=options)
    setup = experiment_of(SPACE, method, ag.data.digits(limit=40), SearchConfig(epochs=2, batch_size=10, seed=0))
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        state = setup.initial_state()
    state.epoch = 1
    state.supernet.double()
    state.alpha = {"cell": randn(3, 3, seed=4)}  # type: ignore[assignment]
    stepper, batches = setup.stepper(state), Doubled(setup.weight_loader, setup.arch_loader, 0)
    stepper.weight_step(state, batches.inner(0))
    found = stepper.mixture_gradients(state, batches)
    with stepper.bilevel_step(state).at(state.alpha, *stepper.batches(batches)) as point:
        expected = method.hypergradient.estimate_once(point)
    alpha = leaves(state.alpha)
    relaxed = stepper.losses.relax(alpha, None, state)
    (pulled,) = gradients(lambda: (relaxed.mixture["cell"] * found["cell"]).sum(), alpha)
    assert found["cell"].shape == (3, 3, 3)
    torch.testing.assert_close(pulled["cell"], expected["cell"].detach(), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("knobs", "times"), [({"every": 1}, 8), ({"every": 3}, 4), ({}, 2)])
def test_a_search_measures_them_every_so_many_steps(knobs: dict[str, int], times: int) -> None:
    method, data = ag.recipes.darts(order=2), ag.data.digits(limit=80)
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 10, "seed": 0}
    setup = experiment_of(SPACE, method, data, SearchConfig(**settings))
    expected: list[Tensors] = []
    seen: list[Tensors] = []

    class Keep(ag.callbacks.LayerAgreement):
        def on_search_start(self, search: Any) -> None:
            expected.append(setup.stepper(search).mixture_gradients(search, setup.step_batches(0)))

        def measure_gradients(self, blocks: Any, slopes: Any) -> dict[str, float]:
            seen.append(dict(slopes))
            return super().measure_gradients(blocks, slopes)

    result = ag.search(SPACE, method, data, callbacks=[Keep(**knobs)], standard_callbacks=False, **settings)
    assert all("alignment" in record for record in result.history)
    assert len(seen) == times  # an epoch has four steps
    torch.testing.assert_close(seen[0], expected[0])
