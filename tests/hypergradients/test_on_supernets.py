"""The engine on real supernets: twice differentiable through batch norms, poolings and mixed operations."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from seeded import randn
from torch import Tensor
from torch.func import functional_call

from archgrad.autodiff.products import ExactProducts, FiniteProducts, ForwardProducts
from archgrad.autodiff.vectors import Vector, added, cosine, dot, norm, unflattened
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import Amended, FirstOrder, Hypergradient, Neumann, TruncatedReverse, Unrolled
from archgrad.relaxations import Softmax
from archgrad.spaces import DARTS, NASBench1Shot1, NASBench201

Tensors = dict[str, Tensor]
SPACES = {
    "nasbench201": NASBench201(channels=2, cells_per_stage=1),
    "darts": DARTS(channels=2, cells=3),
    "nasbench1shot1": NASBench1Shot1(number=3, channels=4, cells=3),
}
every_space = pytest.mark.parametrize("name", SPACES)
LABELS = torch.tensor([0, 1, 2, 0])


class Search(NamedTuple):
    """A supernet and the loss that both levels share."""

    net: torch.nn.Module
    alpha: Tensors
    dtype: torch.dtype
    blocks: Any

    @property
    def weights(self) -> Tensors:
        return dict(self.net.named_parameters())

    def loss(self, weights: Tensors, alpha: Tensors, images: Tensor) -> Tensor:
        mixture = Softmax().relax(self.blocks, alpha, None, 0.0).mixture
        return F.cross_entropy(functional_call(self.net, weights, (images, mixture)), LABELS)

    @property
    def problem(self) -> BilevelProblem:
        return BilevelProblem(self.loss, self.loss)

    def images(self, seed: int) -> Tensor:
        return randn(4, 3, 8, 8, seed=seed).to(self.dtype)

    def vector(self, seed: int) -> Vector:
        flat = randn(sum(value.numel() for value in self.weights.values()), seed=seed)
        return unflattened(flat.to(self.dtype), self.weights)


@functools.cache
def search_of(name: str, dtype: torch.dtype = torch.float64) -> Search:
    space = SPACES[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = space.supernet(num_classes=3).to(dtype)
    alpha = Softmax(init_scale=0.5).init(space.blocks, torch.Generator().manual_seed(1))
    return Search(net, {block: value.to(dtype) for block, value in alpha.items()}, dtype, space.blocks)


def estimate(member: Hypergradient, search: Search, **extra: Any) -> Tensors:
    """Return an estimate, after a look whether it left a trace."""
    state, alpha = copy.deepcopy(search.net.state_dict()), {key: value.clone() for key, value in search.alpha.items()}
    random_state = torch.get_rng_state()
    try:
        return member(
            extra.pop("problem", search.problem),
            search.weights,
            search.alpha,
            search.images(2),
            search.images(3),
            **extra,
        )
    finally:
        assert torch.equal(random_state, torch.get_rng_state())
        assert all(torch.equal(value, state[key]) for key, value in search.net.state_dict().items())
        assert all(torch.equal(value, alpha[key]) for key, value in search.alpha.items())
        assert all(value.requires_grad and value.grad is None for value in search.net.parameters())


@functools.cache
def exact_products(name: str) -> ExactProducts:
    """Return the products that several tests compare with; they keep their graph."""
    search = search_of(name)
    weights = {key: value.detach() for key, value in search.weights.items()}
    return ExactProducts(lambda w, a: search.loss(w, a, search.images(2)), weights, search.alpha)


@functools.cache
def both(name: str, seed: int) -> tuple[Vector, Vector]:
    return exact_products(name).both(search_of(name).vector(seed))


@every_space
def test_exact_products_are_those_of_autograd(name: str) -> None:
    search, exact = search_of(name), exact_products(name)

    def loss(*flat: Tensor) -> Tensor:
        pieces = dict(zip([*exact.weights, *exact.alpha], flat, strict=True))
        return exact.loss({key: pieces[key] for key in exact.weights}, {key: pieces[key] for key in exact.alpha})

    variables = tuple(value.detach() for value in (*exact.weights.values(), *exact.alpha.values()))
    along = (*search.vector(4).values(), *map(torch.zeros_like, exact.alpha.values()))
    _, expected = torch.autograd.functional.vhp(loss, variables, along)
    hessian, mixed = both(name, 4)
    for actual, wanted in zip((*hessian.values(), *mixed.values()), expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-8, atol=1e-10)


@every_space
@pytest.mark.parametrize(("products", "least"), [(FiniteProducts, 0.999999), (ForwardProducts, 0.9999)])
def test_products_by_differences_are_the_exact_ones(name: str, products: Any, least: float) -> None:
    exact = exact_products(name)
    found = products(exact.loss, exact.weights, exact.alpha).both(search_of(name).vector(4))
    for actual, expected in zip(found, both(name, 4), strict=True):
        assert cosine(actual, expected) >= least
        assert norm(actual) == pytest.approx(norm(expected), rel=0.01)


@pytest.mark.parametrize(
    ("name", "exact", "kinds"),
    [
        ("nasbench201", Unrolled(lr=0.025), ("finite", "forward")),
        ("nasbench201", Amended(0.1), ("finite", "forward")),
        ("nasbench201", Neumann(2, 0.01), ("finite", "forward")),
        ("darts", Amended(0.1), ("finite", "forward")),
        ("nasbench1shot1", Unrolled(lr=0.025), ("finite", "forward")),
        ("nasbench1shot1", Neumann(2, 0.01), ("forward",)),
    ],
    ids=str,
)
def test_estimates_in_single_precision_do_not_depend_on_the_products(
    name: str, exact: Any, kinds: tuple[str, ...]
) -> None:
    search = search_of(name, torch.float32)
    velocity = {key: 0.1 * value for key, value in search.vector(6).items()}
    descent = Descent(0.025, 0.9, 3e-4, True, velocity)
    expected = estimate(exact, search, descent=descent)
    for kind in kinds:
        actual = estimate(dataclasses.replace(exact, products=kind), search, descent=descent)
        assert cosine(actual, expected) >= 0.999
    assert cosine(expected, estimate(FirstOrder(), search)) < 0.999


def test_reverse_mode_is_the_slope_of_the_loss_that_training_reaches() -> None:
    """Two steps of torch.optim on a real supernet, and the validation loss after them, along one direction of α."""
    search = search_of("nasbench201")
    direction = {key: randn(*value.shape, seed=7) for key, value in search.alpha.items()}
    settings = {"momentum": 0.9, "weight_decay": 3e-4, "nesterov": True}

    def reached(step: float) -> float:
        net = copy.deepcopy(search.net)
        moved = search._replace(net=net, alpha=added(search.alpha, direction, step))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.025, **settings)
        for _ in range(2):
            optimizer.zero_grad()
            moved.loss(moved.weights, moved.alpha, search.images(2)).backward()
            optimizer.step()
        return moved.loss(moved.weights, moved.alpha, search.images(3)).item()

    gradient = estimate(TruncatedReverse(2, 2), search, descent=Descent(0.025, **settings))
    slope = (reached(1e-6) - reached(-1e-6)) / 2e-6
    assert dot(gradient, direction) == pytest.approx(slope, rel=1e-4)
