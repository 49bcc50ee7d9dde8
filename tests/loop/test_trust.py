"""A search compares its differences of gradients with exact ones once, and does without them where they mislead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from listening import StepFinished, on
from same_bits import dying_at, same_bits
from torch import Tensor, nn

import archgrad as ag
from archgrad.errors import UserError
from archgrad.operations import Identity, Operation, ReLUConvBN, Vocabulary
from archgrad.spaces import StagedSpace

DATA = ag.data.digits(limit=120)
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 20, "seed": 0}


class _Hidden(torch.autograd.Function):
    """A leaky ReLU whose kink nobody can see: forward and backward are the user's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, -2 * x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad, -2 * grad)


class Bent(Operation):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _Hidden.apply(self.conv(_Hidden.apply(x)))
        return output


class OneWay(Bent):
    """PyTorch cannot differentiate its backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = torch.ops.aten.hardsigmoid(self.conv(x))
        return output


class BentSpace(StagedSpace):
    name = "bent"
    nodes = 3
    operations: ClassVar[Vocabulary] = {
        "skip_connect": lambda site: Identity(),
        "conv": lambda site: ReLUConvBN(site.channels, site, 3),
        "bent": lambda site: Bent(site.channels),
    }


class OneWaySpace(BentSpace):
    operations: ClassVar[Vocabulary] = {**BentSpace.operations, "bent": lambda site: OneWay(site.channels)}


def found(method: ag.Method, space: type[StagedSpace] | None = None, **settings: Any) -> ag.SearchResult:
    space = space or ag.spaces.NASBench201(channels=4, cells_per_stage=1).__class__
    return ag.search(space(channels=4, cells_per_stage=1), method, DATA, **{**SETTINGS, **settings})


METHODS = {
    "second order": ag.recipes.darts(order=2),
    "Neumann": ag.recipes.idarts(inner_steps=1),
    "amended": ag.recipes.amended(),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_hidden_kink_is_noticed_and_exact_products_are_taken(
    method: ag.Method, caplog: pytest.LogCaptureFixture
) -> None:
    result = found(method, BentSpace, standard_callbacks=False)
    assert sum("differences of gradients mislead the architecture gradient" in text for text in caplog.messages) == 1
    exact = replace(method, hypergradient=replace(method.hypergradient, products="exact"))  # type: ignore[type-var]
    assert same_bits(result, found(exact, BentSpace, standard_callbacks=False))


def test_layer_alignment_is_differentiated_exactly_where_a_kink_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    method = ag.recipes.lambda_darts()
    result = found(method, BentSpace, standard_callbacks=False)
    assert sum("mislead LayerAlignment" in text for text in caplog.messages) == 1
    (part,) = method.regularizers
    exact = found(replace(method, regularizers=(part.exact(),)), BentSpace, standard_callbacks=False)
    pairs = zip(result.supernet.parameters(), exact.supernet.parameters(), strict=True)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)


def test_a_compiled_search_cannot_go_on_with_exact_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function: function)
    with pytest.raises(UserError, match=r"torch\.compile cannot take exact derivatives .* search without compile"):
        found(ag.recipes.lambda_darts(), BentSpace, compile=True, standard_callbacks=False)


class _Smooth(torch.autograd.Function):
    """x·sigmoid(x) without a kink, whose backward pass hides how it depends on x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x.sigmoid() + x * x.sigmoid() * (1 - x.sigmoid()))


class Curved(Bent):
    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _Smooth.apply(self.conv(_Smooth.apply(x)))
        return output


class CurvedSpace(BentSpace):
    operations: ClassVar[Vocabulary] = {**BentSpace.operations, "bent": lambda site: Curved(site.channels)}


def test_differences_are_trusted_where_exact_derivatives_are_the_wrong_ones(caplog: pytest.LogCaptureFixture) -> None:
    found(ag.recipes.amended(), CurvedSpace, epochs=1, standard_callbacks=False)
    assert sum("own backward pass cannot be differentiated" in text for text in caplog.messages) == 1
    assert not any("mislead" in text for text in caplog.messages)


@pytest.mark.parametrize("name", ["darts-2nd", "idarts", "amended", "lambda-darts", "lambda-sign-darts"])
def test_differences_are_trusted_in_our_own_spaces(name: str, caplog: pytest.LogCaptureFixture) -> None:
    noted: list[dict[str, bool]] = []
    look = on(StepFinished, lambda event: noted.append(dict(event.state.trusted)))
    found(ag.recipes.named(name), epochs=1, standard_callbacks=False, callbacks=look)
    assert not any("mislead" in text for text in caplog.messages)
    assert noted[-1]
    assert all(noted[-1].values())


def test_an_operation_that_cannot_be_differentiated_twice_is_said(caplog: pytest.LogCaptureFixture) -> None:
    found(ag.recipes.darts(order=2), OneWaySpace, epochs=1, standard_callbacks=False)
    assert sum("could not be compared with exact ones" in text for text in caplog.messages) == 1


@pytest.mark.parametrize("method", [METHODS["second order"], ag.recipes.lambda_darts()], ids=lambda one: one.name)
def test_a_resumed_search_remembers_the_comparison(
    method: ag.Method, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = found(method, BentSpace)
    with pytest.raises(KeyboardInterrupt):
        found(method, BentSpace, out=tmp_path, callbacks=dying_at())
    caplog.clear()
    assert same_bits(found(method, BentSpace, out=tmp_path, resume=True), whole)
    assert not any("mislead" in text for text in caplog.messages)
