"""The largest eigenvalue of the architecture's Hessian: exact where it can be, and measured when it should be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.gradients import gradients, leaves
from archgrad.autodiff.krylov import dense
from archgrad.autodiff.vectors import flattened, unflattened
from archgrad.bilevel.problem import BilevelProblem
from archgrad.callbacks import ArchCurvature, largest_eigenvalue
from archgrad.config import SearchConfig
from archgrad.data import ImageData
from archgrad.errors import UserError
from archgrad.hypergradients import Batches, EvaluationPoint, evaluate_at
from archgrad.loop import search
from archgrad.loop.loaders import StepBatches
from archgrad.loop.setup import Setup
from archgrad.method.bundle import Method
from archgrad.recipes import darts, drnas, gaea, gdas, idarts, random_nas
from archgrad.spaces import NASBench201

Tensors = dict[str, Tensor]


def images(count: int = 48) -> ImageData:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    pixels = torch.randint(0, 120, (count, 1, 6, 6), dtype=torch.uint8, generator=generator)
    pixels[labels == 1, :, 2:4] += 100
    return ImageData("stripes", pixels, labels, ("plain", "striped"))


@contextmanager
def quadratic(matrix: Tensor, slope: Tensor) -> Iterator[EvaluationPoint]:
    """Stand at α = 0 of ½αᵀAα + gᵀα, in two blocks."""
    alpha = {"a": torch.zeros(2, 2, dtype=torch.float64), "b": torch.zeros(1, 2, dtype=torch.float64)}

    def outer(w: Tensors, a: Tensors, batch: object) -> Tensor:
        flat = flattened(a)
        return w["w"] * (flat @ matrix @ flat / 2 + slope @ flat)

    problem = BilevelProblem(inner=outer, outer=outer)
    with evaluate_at(problem, {"w": torch.ones((), dtype=torch.float64)}, alpha, None, None) as point:
        yield point


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spectrum", [[-3.0, -1.0, 0.2, 1.0, 2.0, 5.0], [-9.0, -5.0, -4.0, -3.0, -2.0, -0.5]])
def test_it_is_exact_on_a_quadratic(seed: int, spectrum: list[float]) -> None:
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q
    matrix = basis @ torch.diag(torch.tensor(spectrum, dtype=torch.float64)) @ basis.T
    with quadratic(matrix, torch.randn(6, generator=generator, dtype=torch.float64)) as point:
        found = [largest_eigenvalue(point, steps) for steps in range(1, 7)]
    assert found[-1] == pytest.approx(max(spectrum), abs=1e-8)  # not that of largest magnitude
    assert all(value <= max(spectrum) + 1e-8 for value in found)
    assert found == sorted(found)


def test_a_gradient_along_an_eigenvector_finds_it_in_one_step() -> None:
    matrix = torch.diag(torch.tensor([7.0, 1.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    with quadratic(matrix, torch.eye(6, dtype=torch.float64)[0]) as point:
        assert ArchCurvature(steps=1).measure_point(point) == {"alpha_eigenvalue": pytest.approx(7.0, abs=1e-9)}


def test_a_loss_that_does_not_depend_on_the_architecture_is_flat() -> None:
    zero = torch.zeros(6, 6, dtype=torch.float64)
    with quadratic(zero, zero[0]) as point:
        assert largest_eigenvalue(point, 2) == 0.0


def test_it_costs_one_gradient_more_than_it_takes_steps() -> None:
    evaluated = []
    matrix = torch.diag(torch.arange(1.0, 7.0, dtype=torch.float64))
    with quadratic(matrix, torch.ones(6, dtype=torch.float64)) as point:
        outer = point.problem.outer

        def counted(w: Tensors, a: Tensors, batch: object) -> Tensor:
            evaluated.append(a["a"].requires_grad and not w["w"].requires_grad)
            return outer(w, a, batch)

        largest_eigenvalue(replace(point, problem=BilevelProblem(counted, counted)), 3)
    assert evaluated == [True] * 4


@contextmanager
def trained(method: Method, steps: int, seed: int = 0) -> Iterator[EvaluationPoint]:
    """Stand in a tiny search in float64 after some steps."""
    space = NASBench201(channels=2, cells_per_stage=1, exclude=("none", "avg_pool_3x3"))
    setup = Setup.of(space, method, images(), SearchConfig(epochs=9, seed=seed, batch_size=12))
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        state = setup.initial_state()
    stepper = setup.stepper(state)
    for _ in range(steps):
        batches = StepBatches(setup.weight_loader, setup.arch_loader, state.index)
        stepper.architecture_step(state, batches)
        stepper.weight_step(state, batches.inner(0))
        state.step += 1
    state.supernet.double()
    state.alpha = {name: value.double() for name, value in state.alpha.items()}
    batches = StepBatches(setup.weight_loader, setup.arch_loader, state.index)
    outer = batches.outer()
    doubled = outer._replace(inputs=outer.inputs.double())
    with setup.stepper(state).bilevel_step(state).at(state.alpha, Batches([doubled]), doubled) as point:
        yield point


def dense_hessian(point: EvaluationPoint) -> Tensor:
    """Differentiate twice, column by column."""
    alpha = leaves(point.alpha)
    with TwiceDifferentiable():
        (slope,) = gradients(
            lambda: point.problem.outer(point.weights, alpha, point.outer_batch), alpha, create_graph=True
        )
    flat, like = flattened(slope), point.alpha

    def product(v: Tensors) -> Tensors:
        found = torch.autograd.grad(flat @ flattened(v), list(alpha.values()), retain_graph=True)
        return unflattened(torch.cat([piece.flatten() for piece in found]), like)

    return dense(product, like)


@pytest.mark.parametrize(
    ("method", "seed"),
    [(darts(), 0), (darts(), 1), (gaea(level="bilevel"), 0)],
    ids=["darts", "darts again", "gaea"],
)
def test_it_agrees_with_the_dense_hessian_of_a_supernet(method: Method, seed: int) -> None:
    with trained(method, 4, seed) as point:
        matrix = dense_hessian(point)
        truth = torch.linalg.eigvalsh((matrix + matrix.T) / 2)[-1].item()
        two, many = largest_eigenvalue(point, 2), largest_eigenvalue(point, 12)
    assert many == pytest.approx(truth, rel=0.02)
    assert truth > 0
    assert two <= truth * 1.02
    assert two >= 0.3 * truth  # the gradient is a good start


def test_it_changes_nothing_and_repeats_itself() -> None:
    with trained(darts(), 2) as point:
        before = {name: value.clone() for name, value in point.alpha.items()}
        first = ArchCurvature().measure_point(point)
        torch.randn(3)
        assert ArchCurvature().measure_point(point) == first
        assert all(torch.equal(value, before[name]) for name, value in point.alpha.items())
    assert math.isfinite(first["alpha_eigenvalue"])


@pytest.mark.parametrize(
    ("steps", "minimum", "epochs"),
    [(100, 72, [0, 1, 2, 3, 4, 5]), (72, 72, [0, 1, 2, 3, 4, 5]), (71, 72, [1, 3, 5]), (30, 72, [2, 5]), (5, 72, [])],
)
def test_it_is_due_at_the_end_of_epochs_that_are_far_enough_apart(steps: int, minimum: int, epochs: list[int]) -> None:
    probe = ArchCurvature(minimum=minimum)
    due = [index for index in range(6 * steps) if probe.due(index, steps)]
    assert due == [(epoch + 1) * steps - 1 for epoch in epochs]
    assert all(later - earlier >= minimum for earlier, later in pairwise(due))


def test_searches_measure_it_once_per_epoch() -> None:
    space = NASBench201(channels=2, cells_per_stage=1)
    found = search(
        space,
        darts(),
        images(),
        epochs=4,
        batch_size=6,
        standard_callbacks=False,
        callbacks=(ArchCurvature(minimum=8),),
    )
    assert [record["epoch"] for record in found.history if "alpha_eigenvalue" in record] == [2, 4]
    plain = search(space, darts(), images(), epochs=4, batch_size=6, standard_callbacks=False)
    assert all(torch.equal(value, plain.alpha[name]) for name, value in found.alpha.items())


def test_what_moves_is_watched_and_what_does_not_is_not() -> None:
    assert ArchCurvature() in darts().measures
    assert ArchCurvature() in idarts().measures
    for method in (random_nas(), drnas(), gdas()):  # of a draw there is no Hessian worth the name
        assert not any(isinstance(part, ArchCurvature) for part in method.measures)


@pytest.mark.parametrize("knob", ["steps", "minimum"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_bad_settings_of_the_probe_are_explained(knob: str, value: object) -> None:
    with pytest.raises(UserError, match=f"{knob} of ArchCurvature is .*at least 1"):
        ArchCurvature(**{knob: value})  # type: ignore[arg-type]
