"""H·v and M·v against whole matrices, and what one estimate costs: evaluations and graphs, not seconds."""

from __future__ import annotations

import dataclasses
import math
import weakref
from typing import Any

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.autodiff.products import ExactProducts, FiniteProducts, ForwardProducts, Products
from archgrad.autodiff.vectors import Vector, flattened, scaled, unflattened
from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import (
    T1T2,
    Amended,
    ConjugateGradient,
    ExactImplicit,
    FirstOrder,
    Hypergradient,
    Neumann,
    TruncatedReverse,
    Unrolled,
)

Tensors = dict[str, Tensor]
PRODUCTS: dict[str, type[Products]] = {"exact": ExactProducts, "finite": FiniteProducts, "forward": ForwardProducts}
TOLERANCE = {"exact": 1e-12, "finite": 1e-4, "forward": 1e-2}
every_kind = pytest.mark.parametrize("kind", PRODUCTS)


WEIGHTS = {"x": randn(2, 3, seed=0), "y": randn(4, seed=1)}
ALPHA = {"a": randn(3, seed=2), "b": randn(2, 2, seed=3)}
V = {"x": randn(2, 3, seed=4), "y": randn(4, seed=5)}


def loss(w: Tensors, a: Tensors) -> Tensor:
    """Smooth, not quadratic, and indefinite."""
    mixed = (w["x"] @ a["a"]).tanh().sum() * w["y"].sum()
    return mixed + (w["y"] * a["b"].flatten()).sin().sum() + w["x"].pow(4).mean() - w["y"].cosh().log().sum()


def whole(flat: Tensor) -> Tensor:
    split = unflattened(flat, {**WEIGHTS, **ALPHA})
    return loss({name: split[name] for name in WEIGHTS}, {name: split[name] for name in ALPHA})


FLAT = torch.cat([flattened(WEIGHTS), flattened(ALPHA)])
MATRIX = torch.autograd.functional.hessian(whole, FLAT)
HESSIAN, MIXED = MATRIX[:10, :10], MATRIX[10:, :10]


def apart(actual: Vector, expected: Tensor) -> float:
    return ((flattened(actual) - expected).norm() / expected.norm()).item()


@every_kind
def test_products_are_those_with_the_whole_matrices(kind: str) -> None:
    products, tolerance = PRODUCTS[kind](loss, WEIGHTS, ALPHA), TOLERANCE[kind]
    assert apart(products.hessian(V), HESSIAN @ flattened(V)) < tolerance
    assert apart(products.mixed(V), MIXED @ flattened(V)) < tolerance
    hessian, mixed = products.both(V)
    assert apart(hessian, HESSIAN @ flattened(V)) < tolerance
    assert apart(mixed, MIXED @ flattened(V)) < tolerance
    assert apart(products.gradient(), torch.autograd.functional.jacobian(whole, FLAT)[:10]) < 1e-14


@every_kind
@pytest.mark.parametrize("length", [1e-12, 1.0, 1e12])
def test_the_length_of_a_vector_does_not_matter(kind: str, length: float) -> None:
    products = PRODUCTS[kind](loss, WEIGHTS, ALPHA)
    v = scaled(V, length)
    assert apart(products.hessian(v), HESSIAN @ flattened(v)) < TOLERANCE[kind]
    assert apart(products.mixed(v), MIXED @ flattened(v)) < TOLERANCE[kind]


@every_kind
def test_the_product_with_nothing_is_nothing(kind: str) -> None:
    hessian, mixed = PRODUCTS[kind](loss, WEIGHTS, ALPHA).both(scaled(V, 0.0))
    assert not flattened(hessian).any()
    assert not flattened(mixed).any()
    assert {name: value.shape for name, value in mixed.items()} == {name: value.shape for name, value in ALPHA.items()}


@every_kind
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_vector_that_is_not_finite_has_a_product_that_is_not_finite(kind: str, value: float) -> None:
    """Whoever diverges is to find out by looking at the gradient, not by an exception from here."""
    hessian, mixed = PRODUCTS[kind](loss, WEIGHTS, ALPHA).both(scaled(V, value))
    assert not flattened(hessian).isfinite().all()
    assert not flattened(mixed).isfinite().all()


@pytest.mark.parametrize(("kind", "order"), [("finite", 2), ("forward", 1)])
def test_differences_converge_at_their_order(kind: str, order: int) -> None:
    errors = []
    for radius in (0.01, 0.001):
        products = type("Other", (PRODUCTS[kind],), {"radius": radius})(loss, WEIGHTS, ALPHA)
        errors.append(apart(products.hessian(V), HESSIAN @ flattened(V)))
    assert errors[0] / errors[1] == pytest.approx(10**order, rel=0.1)


def evaluations(member: Hypergradient) -> tuple[int, int]:
    """Return how often an estimate evaluates the inner and the outer loss."""
    counts = {"inner": 0, "outer": 0}

    def counted(which: str) -> Any:
        def evaluate(w: Tensors, a: Tensors, batch: object) -> Tensor:
            counts[which] += 1
            return loss(w, a) + 5 * sum(value.square().sum() for value in w.values())

        return evaluate

    member(BilevelProblem(counted("inner"), counted("outer")), WEIGHTS, ALPHA, None, None)
    return counts["inner"], counts["outer"]


COSTS = [
    (T1T2(), 1, 3, 2),
    (Neumann(0, 0.1), 1, 3, 2),
    (Neumann(2, 0.1), 1, 7, 4),
    (Neumann(5, 0.1), 1, 13, 7),
    (Neumann(2, "auto"), 1, 23, 12),
    (ConjugateGradient(1), 1, 5, 3),
    (ConjugateGradient(4), 1, 11, 6),
    (ExactImplicit(), 1, 23, 12),
    (Amended(), 1, 5, 3),
    (Unrolled(lr=0.1), 1, 3, 2),
    (TruncatedReverse(4, 4, lr=0.1), 4, 12, 8),
    (TruncatedReverse(5, 2, lr=0.1), 5, 9, 7),
]
"""Evaluations of the inner loss with exact, central and forward products; the outer loss is evaluated once."""


@pytest.mark.parametrize(("member", "exact", "finite", "forward"), COSTS, ids=[str(row[0]) for row in COSTS])
def test_an_estimate_evaluates_the_losses_so_often(member: Any, exact: int, finite: int, forward: int) -> None:
    """Exact products share one forward graph, however many; one-sided differences share the gradient at w."""
    for kind, expected in (("exact", exact), ("finite", finite), ("forward", forward)):
        assert evaluations(dataclasses.replace(member, products=kind)) == (expected, 1)


def test_first_order_evaluates_the_outer_loss_only() -> None:
    assert evaluations(FirstOrder()) == (0, 1)


class _Saved:
    """A tensor that a graph keeps."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def saved(member: Hypergradient) -> int:
    """Return how many tensors the graphs of the inner loss keep alive at once, at most."""
    alive: weakref.WeakSet[_Saved] = weakref.WeakSet()
    most = 0

    def pack(tensor: Tensor) -> _Saved:
        nonlocal most
        packed = _Saved(tensor)
        alive.add(packed)
        most = max(most, len(alive))
        return packed

    def inner(w: Tensors, a: Tensors, batch: object) -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
            return ((w["x"] @ a["a"]).square().sum() - w["y"] @ a["b"].flatten()).square() + w["y"].square().sum()

    def outer(w: Tensors, a: Tensors, batch: object) -> Tensor:
        return w["x"].square().sum() + w["y"].sum()

    member(BilevelProblem(inner, outer), WEIGHTS, ALPHA, None, None)
    assert not alive
    return most


def test_the_memory_of_implicit_estimates_does_not_grow_with_their_products() -> None:
    one = saved(T1T2())
    assert one > 0
    for few, many in ((Neumann(1, 0.01), Neumann(4, 0.01)), (ConjugateGradient(1), ConjugateGradient(4))):
        assert saved(few) == saved(many) == one
    assert saved(Amended()) == saved(ExactImplicit()) == saved(Neumann(4, "auto")) == one


def test_the_memory_of_reverse_mode_is_linear_in_its_steps() -> None:
    one, two, four, eight = (saved(TruncatedReverse(steps, steps, lr=0.01)) for steps in (1, 2, 4, 8))
    assert one == saved(T1T2()) == saved(Unrolled(lr=0.01))
    assert (four - two, eight - four) == (2 * (two - one), 4 * (two - one))
    assert two - one > one / 2
