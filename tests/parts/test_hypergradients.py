"""One suite that every hypergradient passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
import torch
from torch import Tensor

from archgrad.bilevel import BilevelProblem
from archgrad.hypergradients import FirstOrder, Hypergradient

MEMBERS: dict[str, Hypergradient] = {
    "first_order": FirstOrder(),
}
every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
Tensors = dict[str, Tensor]


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inner(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    """A strongly convex inner loss that couples weights and α."""
    return ((w["u"] - a["a"]) ** 2).sum() + 0.5 * ((w["v"] * batch - a["b"]) ** 2).sum() + 0.1 * w["v"].square().sum()


def outer(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    return (w["u"] * a["a"]).sin().sum() + ((w["v"] + a["b"] * batch) ** 2).sum()


PROBLEM = BilevelProblem(inner, outer)


def point() -> tuple[Tensors, Tensors, Tensor, Tensor]:
    weights = {"u": randn(2, 3, seed=0).requires_grad_(), "v": randn(4, seed=1).requires_grad_()}
    return weights, {"a": randn(2, 3, seed=2), "b": randn(4, seed=3)}, randn(4, seed=4), randn(4, seed=5)


@every_member
def test_the_gradient_is_like_alpha(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    gradient = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    assert list(gradient) == list(alpha)
    for name, value in gradient.items():
        assert value.shape == alpha[name].shape
        assert value.dtype == alpha[name].dtype
        assert value.isfinite().all()
        assert not value.requires_grad


@every_member
def test_it_is_a_pure_function(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    copies = [{name: value.detach().clone() for name, value in tensors.items()} for tensors in (weights, alpha)]
    state = torch.get_rng_state()
    first = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    with torch.no_grad():  # whoever calls it need not record gradients
        second = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(state, torch.get_rng_state())
    for tensors, copy in zip((weights, alpha), copies, strict=True):
        for name, value in tensors.items():
            assert torch.equal(value, copy[name])
            assert value.grad is None
    assert all(value.requires_grad for value in weights.values())
    assert not any(value.requires_grad for value in alpha.values())


@every_member
@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_loss_that_fails_leaves_everything_as_it_was(member: Hypergradient, when: int) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    copies = [{name: value.detach().clone() for name, value in tensors.items()} for tensors in (weights, alpha)]
    calls = 0

    def counted(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls >= when:
            raise ZeroDivisionError
        return inner(w, a, batch) + outer(w, a, batch)

    with contextlib.suppress(ZeroDivisionError):  # an estimate may need fewer evaluations than that
        member(BilevelProblem(counted, counted), weights, alpha, inner_batch, outer_batch)
    assert calls >= 1
    for tensors, copy in zip((weights, alpha), copies, strict=True):
        for name, value in tensors.items():
            assert torch.equal(value, copy[name])
            assert value.grad is None
    assert torch.is_grad_enabled()


@every_member
def test_an_estimate_that_needs_no_inner_batch_does_not_read_it(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()

    def unread(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        raise AssertionError("the inner loss was evaluated")

    if not member.inner_batches:
        expected = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
        actual = member(BilevelProblem(unread, outer), weights, alpha, None, outer_batch)
        assert all(torch.equal(actual[name], expected[name]) for name in expected)


@every_member
def test_an_unused_alpha_has_a_gradient_of_zero(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    alpha["unused"] = randn(2, seed=6)
    gradient = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    assert not gradient["unused"].any()


@every_member
def test_without_coupling_every_estimate_is_the_direct_gradient(member: Hypergradient) -> None:
    """Where w* does not depend on α, dL2/dα = ∂L2/∂α."""
    weights, alpha, inner_batch, outer_batch = point()

    def alone(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        return w["u"].square().sum() + (w["v"] * batch).square().sum() + w["v"].square().sum()

    gradient = member(BilevelProblem(alone, outer), weights, alpha, inner_batch, outer_batch)
    torch.testing.assert_close(gradient["a"], (weights["u"] * (weights["u"] * alpha["a"]).cos()).detach())
    torch.testing.assert_close(gradient["b"], (2 * outer_batch * (weights["v"] + alpha["b"] * outer_batch)).detach())


@every_member
def test_hypergradients_are_values(member: Hypergradient) -> None:
    assert dataclasses.replace(member) == member  # type: ignore[type-var]
    assert member.inner_batches >= 0


def test_first_order_is_exactly_the_direct_gradient() -> None:
    weights, alpha, _, outer_batch = point()
    leaves = {name: value.clone().requires_grad_() for name, value in alpha.items()}
    expected = torch.autograd.grad(outer(weights, leaves, outer_batch), list(leaves.values()))
    gradient = FirstOrder()(PROBLEM, weights, alpha, None, outer_batch)
    assert all(torch.equal(value, wanted) for value, wanted in zip(gradient.values(), expected, strict=True))


def test_first_order_sees_weights_without_gradient() -> None:
    weights, alpha, _, outer_batch = point()
    seen = []

    def watched(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        seen.extend(value.requires_grad for value in w.values())
        return outer(w, a, batch)

    FirstOrder()(BilevelProblem(inner, watched), weights, alpha, None, outer_batch)
    assert seen == [False, False]
