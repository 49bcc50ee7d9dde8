from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from seeded import randn
from torch import Tensor, nn

from archgrad.autodiff.frozen_activations import ActivationPattern
from archgrad.autodiff.products import ExactProducts, FiniteProducts, ForwardProducts
from archgrad.autodiff.vectors import added, norm, scaled
from archgrad.errors import UserError

Tensors = dict[str, Tensor]
Function = Callable[[Tensor], Tensor]
KINKS: dict[str, Function] = {
    "F.relu": F.relu,
    "torch.relu": torch.relu,
    "Tensor.relu": lambda x: x.relu(),
    "nn.ReLU in place": lambda x: nn.ReLU(inplace=True)(x.clone()),
    "Tensor.relu_": lambda x: x.clone().relu_(),
    "F.max_pool2d by keyword": lambda x: F.max_pool2d(input=x, kernel_size=3, stride=None, padding=1, ceil_mode=True),
    "F.max_pool2d dilated": lambda x: F.max_pool2d(x, (2, 3), stride=(1, 2), dilation=(2, 1)),
    "torch.max_pool2d": lambda x: torch.max_pool2d(x, 2),
    "without a batch": lambda x: F.max_pool2d(x[0], 2),
    "channels last": lambda x: F.max_pool2d(F.relu(x.contiguous(memory_format=torch.channels_last)), 3, 2, 1),
    "a network": nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
}
every_kink = pytest.mark.parametrize("function", KINKS.values(), ids=KINKS)


def images(seed: int) -> Tensor:
    return randn(2, 3, 7, 7, seed=seed)


def modes_active() -> int:
    return len(torch.overrides._get_current_function_mode_stack())


def recorded(function: Function, x: Tensor) -> Function:
    """Return the function with the pattern it has at x."""
    pattern = ActivationPattern()
    pattern.evaluate(lambda: function(x))
    return lambda at: pattern.evaluate(lambda: function(at))


@every_kink
def test_recording_and_replaying_at_the_same_point_change_nothing(function: Function) -> None:
    x = images(0)
    pattern = ActivationPattern()
    for _ in range(3):
        assert torch.equal(pattern.evaluate(lambda: function(x)), function(x))


@every_kink
def test_what_is_replayed_is_linear(function: Function) -> None:
    frozen, y, z = recorded(function, images(0)), images(1), images(2)
    torch.testing.assert_close(frozen(2 * y - 3 * z), 2 * frozen(y) - 3 * frozen(z))
    assert not torch.equal(frozen(y), function(y))


def test_a_pattern_keeps_no_graph() -> None:
    pattern, x = ActivationPattern(), images(0).requires_grad_()
    pattern.evaluate(lambda: F.relu(x * 2).sum())
    assert not any(kink.requires_grad for kink in pattern._kept)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_another_number_of_kinks_is_answered_with_a_sentence(times: int) -> None:
    pattern, x = ActivationPattern(), images(0)
    pattern.evaluate(lambda: F.relu(F.relu(x)))

    def other() -> Tensor:
        y = x
        for _ in range(times):
            y = F.relu(y)
        return y

    with pytest.raises(UserError, match=r"the number of functions with kinks .* use products='exact', or"):
        pattern.evaluate(other)
    assert modes_active() == 0
    assert torch.equal(pattern.evaluate(lambda: F.relu(F.relu(x))), F.relu(x))


def failing(x: Tensor) -> Tensor:
    F.relu(x)
    raise ZeroDivisionError


@pytest.mark.parametrize("first", [True, False], ids=["recording", "replaying"])
def test_an_exception_leaves_no_mode_active(first: bool) -> None:
    pattern, x = ActivationPattern(), images(0)
    if not first:
        pattern.evaluate(lambda: F.relu(x))
    with pytest.raises(ZeroDivisionError):
        pattern.evaluate(lambda: failing(x))
    assert modes_active() == 0
    assert torch.equal(F.relu(-x), (-x).clamp(min=0))
    assert torch.equal(pattern.evaluate(lambda: F.relu(x)), F.relu(x))


WIDTHS = (10, 40, 40, 1)
DATA, LABELS = randn(32, 10, seed=0), randn(32, 1, seed=1)
WEIGHTS = {
    str(n): randn(*widths, seed=n + 2) * (2 / widths[0]) ** 0.5 for n, widths in enumerate(itertools.pairwise(WIDTHS))
}
ALPHA = {"a": randn(40, seed=9)}


def rectified(w: Tensors, a: Tensors) -> Tensor:
    hidden = F.relu(DATA @ w["0"])
    hidden = F.relu((hidden * a["a"].sigmoid()) @ w["1"])
    return (hidden @ w["2"] - LABELS).square().mean()


def unfrozen(v: Tensors, radius: float) -> Tensors:
    """Return H·v by central differences as DARTS takes them."""
    epsilon = radius / norm(v)
    ahead, behind = (
        ExactProducts(rectified, added(WEIGHTS, v, sign * epsilon), ALPHA).gradient() for sign in (1.0, -1.0)
    )
    return scaled(added(ahead, behind, -1.0), 0.5 / epsilon)


def test_differences_need_the_pattern_because_units_that_switch_outweigh_the_curvature() -> None:
    """The second derivative of a ReLU is zero; without the pattern every switching unit adds a jump, divided by ε."""
    v = {name: randn(*value.shape, seed=20 + n) for n, (name, value) in enumerate(WEIGHTS.items())}
    exact = ExactProducts(rectified, WEIGHTS, ALPHA).hessian(v)

    def error(product: Tensors) -> float:
        return norm(added(product, exact, -1.0)) / norm(exact)

    frozen = [error(products(rectified, WEIGHTS, ALPHA).hessian(v)) for products in (FiniteProducts, ForwardProducts)]
    assert max(frozen) < 0.002
    assert error(unfrozen(v, radius=0.01)) > 50 * max(frozen)
