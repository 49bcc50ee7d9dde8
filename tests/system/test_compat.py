"""Private functions of PyTorch: with and without them the results are the same."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

import archgrad
from archgrad.autodiff.functions import needed_gradients
from archgrad.system.torch_compat import apply_function, dense_norm_weight, every_pixel, function_places


class Product(Function):
    """x, y ↦ x·y, which notes the gradients it was asked for."""

    asked: list[bool]

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        Product.asked = needed_gradients(ctx)
        return tuple(grad * one if need else None for one, need in zip((y, x), Product.asked, strict=True))


@pytest.fixture(params=[False, True], ids=["with", "without"])
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the private functions are missing."""
    for name in ("_transforms_active", "_will_execute", "_private_functions") if request.param else ():
        monkeypatch.setattr(f"archgrad.system.torch_compat.{name}", None)
    return bool(request.param)


def test_a_function_is_applied_and_differentiated(missing: bool) -> None:
    x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    product = apply_function(Product, (x * 1, y * 1))
    (gradient,) = torch.autograd.grad(product, [x])
    assert (product.item(), gradient.item()) == (6.0, 3.0)
    assert Product.asked == [True, missing]  # without the engine's word, more is computed than is read
    with torch.no_grad():
        assert not apply_function(Product, (x, y)).requires_grad


def test_a_missing_base_method_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.system.torch_compat._has_unwrapped_apply", False)
    x = torch.tensor(2.0, requires_grad=True)
    assert torch.autograd.grad(apply_function(Product, (x, x.detach())), x)[0].item() == 2.0


def test_functions_are_found_in_public_places(missing: bool) -> None:
    assert len(function_places()) == (3 if missing else 4)


def test_the_workarounds_change_no_value() -> None:
    weight = torch.tensor(0.5).expand(4)
    assert dense_norm_weight(weight).is_contiguous()
    assert torch.equal(dense_norm_weight(weight), weight)
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert every_pixel(1, x) is x
    assert every_pixel(2, x).flatten().tolist() == [0.0, 2.0, 8.0, 10.0]


def test_nobody_else_uses_private_functions_of_pytorch() -> None:
    root = Path(archgrad.__file__).parent
    for path in root.rglob("*.py"):
        if path.name == "torch_compat.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            private = (
                isinstance(node, ast.Attribute) and node.attr.startswith("_") and ast.unparse(node.value) == "torch"
            )
            assert not private, f"{path}:{node.lineno}"  # type: ignore[attr-defined]
