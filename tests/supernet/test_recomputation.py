"""Cells that are computed again in the backward pass give the same bits, with less memory."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from varied_spaces import VARIED_SPACES

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.frozen_activations import ActivationPattern
from archgrad.autodiff.products import ProductKind, products_of
from archgrad.autodiff.tensors import Alpha, Mixture, Weights
from archgrad.operations import Operation
from archgrad.spaces import SPACES
from archgrad.supernet import CellMixture, Edge, MixedCell, Supernet, SupernetOptions, recompute_cells

SIZES = {name: {"channels": 4, "cells": 3} for name in VARIED_SPACES if name != "nasbench201"}
SIZES["nasbench201"] = {"channels": 4, "cells_per_stage": 1}
OPTIONS = {
    "partial channels": SupernetOptions(partial=2, edge_weights=True),
    "auxiliary skip": SupernetOptions(auxiliary_skip=True),
    "auxiliary head": SupernetOptions(auxiliary_head=0.4),
}


class Problem:
    """A supernet twice, plain and recomputed, with images, labels and a mixture."""

    def __init__(self, name: str, options: SupernetOptions | None = None, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        space = SPACES.create(name, **SIZES[name])
        self.plain: Supernet = space.supernet(options, num_classes=3, input_channels=2).to(dtype)
        self.recomputed = copy.deepcopy(self.plain)
        self.cells = recompute_cells(self.recomputed)
        self.images, self.labels = torch.randn(4, 2, 8, 8, dtype=dtype), torch.randint(3, (4,))
        drawn = {one.name: torch.randn(one.cells, *one.shape, dtype=dtype) for one in space.searched_blocks(options)}
        self.mixture = Mixture({name: value.softmax(-1).requires_grad_() for name, value in drawn.items()})

    def gradients(self, supernet: nn.Module, **extra: Any) -> list[Tensor]:
        """Return the gradients at other weights than the module's own, as a virtual step has them."""
        weights = {name: (1.5 * value.detach()).requires_grad_() for name, value in supernet.named_parameters()}
        output = functional_call(supernet, weights, (self.images, self.mixture), {"seed": 3, **extra})
        losses = [
            F.cross_entropy(logits, self.labels) for logits in (output if isinstance(output, tuple) else [output])
        ]
        inputs = [*weights.values(), *self.mixture.values()]
        return list(torch.autograd.grad(sum(losses), inputs, allow_unused=True, materialize_grads=True))  # type: ignore[arg-type]


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_the_gradients_are_the_same_bits(name: str) -> None:
    problem = Problem(name)
    extra = {"drop_path": 0.3, "skip_dropout": 0.3}
    assert problem.cells == 3
    assert same(problem.gradients(problem.plain, **extra), problem.gradients(problem.recomputed, **extra))


@pytest.mark.parametrize("kind", OPTIONS)
def test_so_are_those_of_modified_supernets(kind: str) -> None:
    problem = Problem("darts", OPTIONS[kind])
    extra = {"auxiliary skip": {"skip": 0.7}, "auxiliary head": {"auxiliary": True}}.get(kind, {})
    assert same(problem.gradients(problem.plain, **extra), problem.gradients(problem.recomputed, **extra))


@pytest.mark.parametrize("kind", ["exact", "finite", "forward"])
@pytest.mark.parametrize("name", ["nasbench201", "nasbench1shot1-1"])
def test_second_order_products_are_the_same_bits(name: str, kind: ProductKind) -> None:
    problem = Problem(name, dtype=torch.float64)

    def product(supernet: nn.Module) -> list[Tensor]:
        def loss(weights: Weights, alpha: Alpha) -> Tensor:
            return F.cross_entropy(functional_call(supernet, weights, (problem.images, alpha)), problem.labels)

        weights = Weights({name: weight.detach() for name, weight in supernet.named_parameters()})
        products = products_of(kind, loss, weights, Alpha(dict(problem.mixture)))
        first = products.gradient()
        hessian, mixed = products.both(first)  # twice: the pattern is recorded, then read; a graph is walked again
        again = products.hessian(hessian)
        return [*first.values(), *hessian.values(), *mixed.values(), *again.values()]

    assert same(product(problem.plain), product(problem.recomputed))


def kept_bytes(problem: Problem, supernet: nn.Module) -> int:
    """Return the bytes that the graph of the loss holds."""
    storages: dict[int, int] = {}

    def pack(value: Tensor) -> Tensor:
        storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        loss = F.cross_entropy(supernet(problem.images, problem.mixture), problem.labels)
    del loss
    return sum(storages.values())


@pytest.mark.parametrize("name", ["darts", "nasbench1shot1-1"])
def test_little_is_kept_for_the_backward_pass(name: str) -> None:
    problem = Problem(name)
    problem.images = torch.randn(8, 2, 16, 16)
    problem.labels = torch.randint(3, (8,))
    assert kept_bytes(problem, problem.recomputed) < 0.2 * kept_bytes(problem, problem.plain)


def test_a_pattern_keeps_no_activations_of_recomputed_cells() -> None:
    problem = Problem("nasbench201")
    pattern = ActivationPattern()
    pattern.evaluate(lambda: problem.recomputed(problem.images, problem.mixture).sum())
    inside = [kept for kept in pattern._kept if kept.dtype == torch.float32]
    skeleton = 2 * 2 + 1  # two ReLUs in each residual block, one before the classifier
    assert len(inside) <= skeleton < len(pattern._kept)


def test_modes_are_left_after_a_recomputation() -> None:
    problem = Problem("nasbench201")
    with TwiceDifferentiable():
        loss = ActivationPattern().evaluate(lambda: problem.recomputed(problem.images, problem.mixture).sum())
    torch.autograd.grad(loss, [*problem.mixture.values()])
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(F.relu(x).sum(), x)
    assert gradient.tolist() == [0.0, 1.0]
    normed = F.batch_norm(torch.randn(4, 2, 3, 3, requires_grad=True), None, None, training=True)
    assert "NativeBatchNorm" in str(normed.grad_fn)


class Counting(Operation):
    """Draws from the global random state and counts its calls in a buffer, as running statistics do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return F.dropout(x * self.weight, 0.5) * self.calls


def test_operations_with_global_randomness_and_buffers_are_repeated_exactly() -> None:
    found: list[list[Tensor]] = []
    for recomputed in (False, True):
        operation = Counting()
        network = nn.Sequential(MixedCell([Edge(0, 1, (operation,))], inputs=1, nodes=2))
        if recomputed:
            recompute_cells(network)
        torch.manual_seed(1)
        x = torch.randn(2, 3, 4, 4)
        for _ in range(2):
            mixture = CellMixture([[torch.ones((), requires_grad=True)]], (0,))
            loss = network[0]([x], mixture)[-1].square().sum()
            torch.rand(3)  # what others draw before the backward pass
            loss.backward(retain_graph=True)
            loss.backward()  # again: the first repetition has left no trace
        found.append([cast(Tensor, operation.weight.grad), cast(Tensor, operation.calls), torch.rand(1)])
    assert same(*found)
