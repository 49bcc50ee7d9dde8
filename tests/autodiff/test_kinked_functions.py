"""PyTorch's usual functions with kinks are held to their pieces, so that differences of gradients are derivatives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.autodiff.frozen_activations import ActivationPattern
from archgrad.autodiff.products import ExactProducts, FiniteProducts, ForwardProducts
from archgrad.autodiff.vectors import cosine

Function = Callable[[Tensor], Tensor]

# Of images [5, 6, 8, 8]; each is continued by a smooth function.
FUNCTIONS: dict[str, Function] = {
    "ReLU": nn.ReLU(),
    "ReLU6": nn.ReLU6(),
    "F.relu6": F.relu6,
    "LeakyReLU": nn.LeakyReLU(),
    "LeakyReLU in place": lambda x: nn.LeakyReLU(inplace=True)(x.clone()),
    "F.leaky_relu_": lambda x: F.leaky_relu_(x.clone()),
    "Hardswish in place": lambda x: nn.Hardswish(inplace=True)(4 * x),
    "Hardtanh in place": lambda x: nn.Hardtanh(-0.3, 0.4, inplace=True)(x.clone()),
    "clamp with bounds that cross": lambda x: torch.clamp(x, 0.5, 0.2) * x,
    "abs into nothing": lambda x: torch.abs(x, out=None),
    "argmax": lambda x: x * F.one_hot(x.argmax(1), 6).movedim(-1, 1),
    "PReLU": nn.PReLU(dtype=torch.float64),
    "PReLU by channel": nn.PReLU(6, dtype=torch.float64),
    "Hardtanh": nn.Hardtanh(-0.3, 0.4),
    "Hardsigmoid": lambda x: F.hardsigmoid(4 * x),
    "Hardswish": lambda x: F.hardswish(4 * x),
    "abs": torch.abs,
    "builtin abs": abs,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp by tensors": lambda x: torch.clamp(x, -torch.ones_like(x) / 2, torch.tensor(0.3)),
    "clamp_": lambda x: x.clone().clamp_(min=0),
    "clamp_min": lambda x: torch.clamp_min(x, 0),
    "clip": lambda x: torch.clip(x, max=0.3),
    "where": lambda x: torch.where(x > 0, x, 0.3 * x),
    "mask": lambda x: x * (x > 0.1),
    "sign": lambda x: x * x.sign(),
    "round": lambda x: x * torch.round(4 * x),
    "max_pool2d with indices": lambda x: F.max_pool2d(x, 3, 2, return_indices=True)[0],
    "AdaptiveMaxPool2d": nn.AdaptiveMaxPool2d(2),
}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def draws(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHTS = {"first": 0.3 * draws(6, 3, 3, 3, seed=1), "last": draws(4, 6, 1, 1, seed=2)}
ALPHA, V = {"p": draws(6, 1, 1, seed=3)}, {"first": draws(6, 3, 3, 3, seed=4), "last": draws(4, 6, 1, 1, seed=5)}


def loss_of(function: Function) -> Callable[[dict[str, Tensor], dict[str, Tensor]], Tensor]:
    def loss(weights: dict[str, Tensor], alpha: dict[str, Tensor]) -> Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            x = F.conv2d(draws(5, 3, 8, 8, seed=0), weights["first"], padding=1) * alpha["p"].sigmoid()
            y = function(x)
            y = F.conv2d(y, weights["last"]) if y.shape[:2] == (5, 6) and y.dim() == 4 else y
            return y.tanh().square().mean() + F.dropout(y, 0.5).mean() ** 2  # draws after the function

    return loss


@every_function
@pytest.mark.parametrize("kind", [FiniteProducts, ForwardProducts])
def test_differences_are_the_exact_products(
    function: Function, kind: type[FiniteProducts] | type[ForwardProducts]
) -> None:
    exact = ExactProducts(loss_of(function), WEIGHTS, ALPHA).both(V)
    found = kind(loss_of(function), WEIGHTS, ALPHA).both(V)
    assert min(map(cosine, found, exact)) > 0.9999


@every_function
def test_the_first_evaluation_and_its_repetition_are_the_function(function: Function) -> None:
    pattern, loss = ActivationPattern(), loss_of(function)
    for _ in range(2):
        weights = {name: value.clone().requires_grad_() for name, value in WEIGHTS.items()}
        found = pattern.evaluate(lambda: loss(weights, ALPHA))  # noqa: B023
        expected = loss(weights, ALPHA)
        torch.testing.assert_close(found, expected)
        inputs = list(weights.values())
        torch.testing.assert_close(*(torch.autograd.grad(one, inputs, allow_unused=True) for one in (found, expected)))
        pattern.pack()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", ["Hardswish", "clamp", "abs"])
def test_precision_is_kept(name: str, dtype: torch.dtype) -> None:
    x = (40 * draws(5, 6, 8, 8, seed=0)).to(dtype).requires_grad_()
    pattern = ActivationPattern()
    for _ in range(2):
        found = pattern.evaluate(lambda: FUNCTIONS[name](x))
        assert found.dtype == dtype
        (gradient,) = torch.autograd.grad(found.sum(), x)
        assert gradient.isfinite().all()
        pattern.pack()


def test_comparisons_of_whole_numbers_are_left_alone() -> None:
    pattern = ActivationPattern()
    numbers = [torch.tensor([1, 2]), torch.tensor([3, 0])]
    found = [pattern.evaluate(lambda: (one > 1).double().sum()).item() for one in numbers]  # noqa: B023
    assert found == [1.0, 1.0]
    assert pattern.evaluate(lambda: torch.tensor(float(numbers[0].equal(numbers[1])))) == 0
