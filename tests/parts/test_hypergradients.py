"""One suite that every hypergradient passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from seeded import randn
from torch import Tensor

from archgrad import hypergradients
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError
from archgrad.hypergradients import (
    SOBA,
    T1T2,
    Amended,
    Batches,
    ConjugateGradient,
    ExactImplicit,
    FirstOrder,
    Hypergradient,
    Neumann,
    Nystrom,
    SecondOrder,
    SharpnessAware,
    TruncatedReverse,
    Unrolled,
    evaluate_at,
)

LR = 0.05
WITH_PRODUCTS: dict[str, SecondOrder] = {
    "unrolled": Unrolled(lr=LR),
    "t1_t2": T1T2(),
    "neumann": Neumann(2, LR),
    "neumann_auto": Neumann(2, "auto"),
    "conjugate_gradient": ConjugateGradient(4),
    "warm_start": ConjugateGradient(4, warm_start=True),
    "nystrom": Nystrom(3, 0.5, 2),
    "soba": SOBA(LR),
    "soba_momentum": SOBA(LR, 0.5, 0.1),
    "all_steps": TruncatedReverse(3, 3, lr=LR),
    "truncated_reverse": TruncatedReverse(4, 2, lr=LR),
    "exact_implicit": ExactImplicit(),
    "amended": Amended(0.1),
}
KINDS = ("exact", "finite", "forward", "exact-hessian")
MEMBERS: dict[str, Hypergradient] = {"first_order": FirstOrder()} | {
    f"{name}-{kind}": dataclasses.replace(member, products=kind)
    for name, member in WITH_PRODUCTS.items()
    for kind in KINDS
}
MEMBERS |= {
    f"{name}-crossed": dataclasses.replace(member, products="finite", kinks="crossed")
    for name, member in WITH_PRODUCTS.items()
}
MEMBERS |= {
    "sharpness_aware": SharpnessAware(),
    "sharpness_aware-neumann": SharpnessAware(0.2, Neumann(2, LR)),
    "sharpness_aware-truncated": SharpnessAware(0.2, TruncatedReverse(4, 2, lr=LR)),
}
every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
AT_ALPHA = {name: member for name, member in MEMBERS.items() if not isinstance(member, SharpnessAware)}
every_at_alpha = pytest.mark.parametrize("member", AT_ALPHA.values(), ids=AT_ALPHA)
Tensors = dict[str, Tensor]
ABOUT = {"rtol": 1e-6, "atol": 1e-9}
"""What differences of float64 gradients of a quadratic loss reach."""


def inner(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    """A strongly convex inner loss that couples weights and α."""
    return ((w["u"] - a["a"]) ** 2).sum() + 0.5 * ((w["v"] * batch - a["b"]) ** 2).sum() + 0.1 * w["v"].square().sum()


def outer(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    return (w["u"] * a["a"]).sin().sum() + ((w["v"] + a["b"] * batch) ** 2).sum()


PROBLEM = BilevelProblem(inner, outer)


def point(dtype: torch.dtype = torch.float64) -> tuple[Tensors, Tensors, Tensor, Tensor]:
    weights = {"u": randn(2, 3, seed=0).to(dtype).requires_grad_(), "v": randn(4, seed=1).to(dtype).requires_grad_()}
    alpha = {"a": randn(2, 3, seed=2).to(dtype), "b": randn(4, seed=3).to(dtype)}
    return weights, alpha, randn(4, seed=4).to(dtype), randn(4, seed=5).to(dtype)


def copied(*vectors: Tensors) -> list[Tensors]:
    return [{name: value.detach().clone() for name, value in vector.items()} for vector in vectors]


def same(x: Tensors, y: Tensors) -> bool:
    return list(x) == list(y) and all(torch.equal(value, y[name]) for name, value in x.items())


def assert_close(x: Tensors, y: Tensors, **tolerance: float) -> None:
    assert list(x) == list(y)
    for name, value in x.items():
        torch.testing.assert_close(value, y[name].detach(), **tolerance)


def outer_gradients(weights: Tensors, alpha: Tensors, batch: Tensor) -> tuple[Tensors, Tensors]:
    """Return ∂L2/∂α and ∂L2/∂w."""
    w, a = ({name: value.detach().requires_grad_() for name, value in vector.items()} for vector in (weights, alpha))
    found = torch.autograd.grad(outer(w, a, batch), [*a.values(), *w.values()])
    return dict(zip(a, found[:2], strict=True)), dict(zip(w, found[2:], strict=True))


@every_member
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_the_gradient_is_like_alpha(member: Hypergradient, dtype: torch.dtype) -> None:
    weights, alpha, inner_batch, outer_batch = point(dtype)
    gradient = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    assert list(gradient) == list(alpha)
    for name, value in gradient.items():
        assert value.shape == alpha[name].shape
        assert value.dtype == alpha[name].dtype
        assert value.isfinite().all()
        assert not value.requires_grad


@every_member
def test_single_precision_is_close_to_double_precision(member: Hypergradient) -> None:
    single, double = (member(PROBLEM, *point(dtype)) for dtype in (torch.float32, torch.float64))
    assert_close({name: value.double() for name, value in single.items()}, double, rtol=5e-3, atol=5e-3)


@every_member
def test_it_is_a_pure_function(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    for value in weights.values():
        value.grad = torch.full_like(value, 7.0)
    velocity = {name: torch.ones_like(value) for name, value in weights.items()}
    descent = Descent(LR, momentum=0.9, velocity=velocity)
    before = copied(weights, alpha, velocity)
    state = torch.get_rng_state()
    first = member(PROBLEM, weights, alpha, inner_batch, outer_batch, descent=descent)
    second = member(PROBLEM, weights, alpha, inner_batch, outer_batch, descent=descent)
    assert same(first, second)
    assert torch.equal(state, torch.get_rng_state())
    assert all(map(same, (weights, alpha, velocity), before))
    assert all(
        value.requires_grad and torch.equal(value.grad, torch.full_like(value, 7.0)) for value in weights.values()
    )
    assert not any(value.requires_grad or value.grad is not None for value in alpha.values())


@every_member
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_whoever_calls_it_need_not_record_gradients(member: Hypergradient, mode: Callable[[], Any]) -> None:
    expected = member(PROBLEM, *point())
    weights, alpha, *batches = point()
    with mode():
        enabled, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        assert same(member(PROBLEM, weights, alpha, *batches), expected)
        assert same(member(PROBLEM, *copied(weights, alpha), *batches), expected)
        assert torch.is_grad_enabled() == enabled
        assert torch.is_inference_mode_enabled() == inference


@every_member
def test_requiring_gradients_or_not_makes_no_difference(member: Hypergradient) -> None:
    weights, alpha, *batches = point()
    for vector in (weights, alpha):
        for value in vector.values():
            value.requires_grad_(not value.requires_grad)
    assert same(member(PROBLEM, weights, alpha, *batches), member(PROBLEM, *point()))
    assert not any(value.requires_grad for value in weights.values())
    assert all(value.requires_grad and value.grad is None for value in alpha.values())


@every_member
@pytest.mark.parametrize("when", [1, 2, 3, 4, 5, 6])
def test_a_loss_that_fails_leaves_everything_as_it_was(member: Hypergradient, when: int) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    before = copied(weights, alpha)
    state, calls = torch.get_rng_state(), 0

    def counted(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        torch.rand(3)
        if calls >= when:
            raise ZeroDivisionError
        return inner(w, a, batch) + outer(w, a, batch).sin()

    with contextlib.suppress(ZeroDivisionError):  # an estimate may need fewer evaluations than that
        member(BilevelProblem(counted, counted), weights, alpha, inner_batch, outer_batch)
    assert 1 <= calls <= when
    assert all(map(same, (weights, alpha), before))
    assert all(value.grad is None for vector in (weights, alpha) for value in vector.values())
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert member(PROBLEM, weights, alpha, inner_batch, outer_batch).keys() == alpha.keys()


@every_member
def test_an_estimate_that_needs_no_inner_batch_does_not_read_it(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()

    def unread(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        raise AssertionError("the inner loss was evaluated")

    if not member.inner_batches:
        expected = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
        actual = member(BilevelProblem(unread, outer), weights, alpha, None, outer_batch)
        assert same(actual, expected)


@every_member
def test_an_estimate_reads_as_many_inner_batches_as_it_says(member: Hypergradient) -> None:
    weights, alpha, _, outer_batch = point()
    seen = set()

    def watched(w: Tensors, a: Tensors, batch: tuple[int, Tensor]) -> Tensor:
        seen.add(batch[0])
        return inner(w, a, batch[1])

    batches = Batches((number, randn(4, seed=10 + number)) for number in range(member.inner_batches))
    with evaluate_at(BilevelProblem(watched, outer), weights, alpha, batches, outer_batch) as at:
        _, state = member.estimate(at, member.init(weights, alpha))
        member.estimate(at, state)  # one with a state may need none before it has one
    assert seen == set(range(member.inner_batches))


@every_member
def test_one_batch_for_all_steps_is_the_same_batch_at_every_step(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    expected = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    repeated = Batches([inner_batch] * member.inner_batches)
    assert same(member(PROBLEM, weights, alpha, repeated, outer_batch), expected)
    if member.inner_batches > 1:
        other = Batches([*repeated[:-1], randn(4, seed=11)])
        assert not same(member(PROBLEM, weights, alpha, other, outer_batch), expected)


@every_member
def test_an_unused_alpha_has_a_gradient_of_zero(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    alpha["unused"] = randn(2, seed=6)
    gradient = member(PROBLEM, weights, alpha, inner_batch, outer_batch)
    assert not gradient["unused"].any()
    assert same({name: gradient[name] for name in ("a", "b")}, member(PROBLEM, *point()))


@every_at_alpha
def test_without_coupling_every_estimate_is_the_direct_gradient(member: Hypergradient) -> None:
    """Where w* does not depend on α, dL2/dα = ∂L2/∂α at w*."""
    weights, alpha, inner_batch, outer_batch = point()
    (best,) = copied(weights)

    def alone(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        return (w["u"] - best["u"]).square().sum() + ((w["v"] - best["v"]) * batch).square().sum()

    gradient = member(BilevelProblem(alone, outer), weights, alpha, inner_batch, outer_batch)
    assert_close(gradient, outer_gradients(weights, alpha, outer_batch)[0])


@every_at_alpha
@pytest.mark.parametrize("constant", [False, True])
def test_an_inner_loss_without_weights_leaves_the_direct_gradient(member: Hypergradient, constant: bool) -> None:
    weights, alpha, inner_batch, outer_batch = point()

    def idle(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        return torch.zeros((), dtype=torch.float64) if constant else a["b"].square().sum()

    problem = BilevelProblem(idle, outer)
    if isinstance(member, ExactImplicit):
        with pytest.raises(UserError, match="singular"):
            member(problem, weights, alpha, inner_batch, outer_batch)
    else:
        gradient = member(problem, weights, alpha, inner_batch, outer_batch)
        assert_close(gradient, outer_gradients(weights, alpha, outer_batch)[0])


def linear(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    return (w["u"] * a["a"]).sum() + (w["v"] * batch * a["b"].square()).sum()


STEPS_AND_FACTORS = {
    "first_order": (0, 0.0),
    "unrolled": (1, LR),
    "t1_t2": (0, 1.0),
    "neumann": (0, 3 * LR),
    "neumann_auto": (0, 3.0),
    "conjugate_gradient": (0, 0.0),
    "warm_start": (0, 0.0),
    "nystrom": (0, 2.0),
    "soba": (0, 0.0),
    "soba_momentum": (0, 0.0),
    "all_steps": (3, 3 * LR),
    "truncated_reverse": (4, 2 * LR),
    "amended": (0, 0.0),
}
"""Without curvature an estimate is ∂L2/∂α − factor·M·∂L2/∂w, so many steps ahead."""


@pytest.mark.parametrize("name", [name for name in AT_ALPHA if not name.startswith("exact_implicit")])
def test_an_inner_loss_that_is_linear_in_the_weights_has_no_hessian(name: str) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    steps, factor = STEPS_AND_FACTORS[name.partition("-")[0]]
    slopes = {"u": alpha["a"], "v": inner_batch * alpha["b"].square()}
    ahead = {key: value - steps * LR * slopes[key] for key, value in weights.items()}
    direct, g = outer_gradients(ahead, alpha, outer_batch)
    mixed = {"a": g["u"], "b": g["v"] * inner_batch * 2 * alpha["b"]}
    gradient = MEMBERS[name](BilevelProblem(linear, outer), weights, alpha, inner_batch, outer_batch)
    assert_close(gradient, {key: value - factor * mixed[key] for key, value in direct.items()}, **ABOUT)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_implicit_refuses_an_inner_loss_without_hessian(kind: Any) -> None:
    with pytest.raises(UserError, match="singular"):
        ExactImplicit(products=kind)(BilevelProblem(linear, outer), *point())


@every_member
def test_every_evaluation_sees_the_same_random_numbers(member: Hypergradient) -> None:
    weights, alpha, inner_batch, outer_batch = point()
    torch.manual_seed(3)
    state, seen = torch.get_rng_state(), []

    def noisy(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def evaluate(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
            seen.append(torch.rand(()).item())
            return loss({"u": F.dropout(w["u"]), "v": w["v"]}, a, batch) + 0.1 * w["u"].square().sum()

        return evaluate

    first = member(BilevelProblem(noisy(inner), noisy(outer)), weights, alpha, inner_batch, outer_batch)
    assert torch.equal(state, torch.get_rng_state())
    assert set(seen) == {torch.rand(()).item()}
    torch.manual_seed(3)
    assert same(first, member(BilevelProblem(noisy(inner), noisy(outer)), weights, alpha, inner_batch, outer_batch))


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("name", WITH_PRODUCTS)
def test_all_products_agree_on_a_smooth_loss(name: str, kind: Any) -> None:
    """Dropout included, since every evaluation has the same mask."""
    torch.manual_seed(4)

    def curved(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        bent = (F.dropout(w["u"], 0.3) * a["a"]).tanh().square().sum() + (w["v"] * a["b"] * batch).cos().sum()
        return inner(w, a, batch) + 0.1 * bent

    problem = BilevelProblem(curved, outer)
    expected = WITH_PRODUCTS[name](problem, *point())
    actual = dataclasses.replace(WITH_PRODUCTS[name], products=kind)(problem, *point())
    assert_close(actual, expected, rtol=2e-3, atol=2e-3)


@every_member
def test_hypergradients_are_values(member: Hypergradient) -> None:
    twin = dataclasses.replace(member)  # type: ignore[type-var]
    assert twin == member
    assert hash(twin) == hash(member)
    assert eval(repr(member), vars(hypergradients)) == member  # noqa: S307
    assert [other for other in MEMBERS.values() if other == member] == [member]
    with pytest.raises(dataclasses.FrozenInstanceError):
        member.products = "exact"  # type: ignore[attr-defined]


def test_no_more_steps_are_kept_than_there_are() -> None:
    with pytest.raises(UserError, match=r"TruncatedReverse keeps 3 of 2 steps; keep at most 2\."):
        TruncatedReverse(2, 3)


@pytest.mark.parametrize("member", [Unrolled(), TruncatedReverse(), Neumann(), SOBA()])
def test_without_lr_the_descent_says_what_it_is(member: Hypergradient) -> None:
    weights, alpha, *batches = point()
    with pytest.raises(UserError, match=r"no descent by SGD is given; set lr to a number, or pass descent="):
        member(PROBLEM, weights, alpha, *batches)
    expected = dataclasses.replace(member, lr=0.03)(PROBLEM, weights, alpha, *batches)  # type: ignore[type-var]
    assert same(member(PROBLEM, weights, alpha, *batches, descent=Descent(0.03)), expected)
    own = dataclasses.replace(member, lr=0.03)  # type: ignore[type-var]
    assert same(own(PROBLEM, weights, alpha, *batches, descent=Descent(9.0)), expected)


def test_exact_implicit_refuses_a_hessian_that_would_fill_the_memory() -> None:
    weights = {"w": torch.zeros(5001, dtype=torch.float64)}
    problem = BilevelProblem(lambda w, a, x: (w["w"] - a["a"]).square().sum(), lambda w, a, x: w["w"].sum())
    with pytest.raises(UserError, match="dense Hessian of 5001 weights, but its limit is 5000"):
        ExactImplicit()(problem, weights, {"a": torch.ones((), dtype=torch.float64)}, None, None)


def test_too_few_batches_are_answered_with_a_sentence() -> None:
    weights, alpha, inner_batch, outer_batch = point()
    with pytest.raises(UserError, match="batches"):
        TruncatedReverse(3, 3, lr=LR)(PROBLEM, weights, alpha, Batches([inner_batch] * 2), outer_batch)


def test_first_order_is_exactly_the_direct_gradient() -> None:
    weights, alpha, _, outer_batch = point()
    gradient = FirstOrder()(PROBLEM, weights, alpha, None, outer_batch)
    assert same(gradient, outer_gradients(weights, alpha, outer_batch)[0])


def test_first_order_sees_weights_without_gradient() -> None:
    weights, alpha, _, outer_batch = point()
    seen = []

    def watched(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
        seen.extend(value.requires_grad for value in w.values())
        return outer(w, a, batch)

    FirstOrder()(BilevelProblem(inner, watched), weights, alpha, None, outer_batch)
    assert seen == [False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_amended_with_eta_zero_is_first_order(kind: Any) -> None:
    assert same(Amended(0.0, products=kind)(PROBLEM, *point()), FirstOrder()(PROBLEM, *point()))
