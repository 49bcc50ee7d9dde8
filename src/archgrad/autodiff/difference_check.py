"""Check differences of gradients against the exact product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from archgrad.autodiff.products import InnerLoss, ProductKind, products_of
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import Vector, added, cosine, norm

__all__ = ["LEAST_COSINE", "NoisyVectors", "agreement", "difference_products"]

LEAST_COSINE = 0.99
"""Differences whose cosine to the exact product is below this are not used."""

_ROUNDINGS = 10.0
"""A difference that is off by less than this many rounding errors passes whatever its cosine."""


class NoisyVectors(NamedTuple):
    """Vectors, and the size of their rounding error."""

    vectors: tuple[Vector, ...]
    noise: float


def difference_products(
    loss: InnerLoss, weights: Weights, alpha: Alpha, v: Weights, kind: ProductKind, stretch: float = 1.0
) -> NoisyVectors:
    """Return H·v and M·v of a loss by differences of this kind, with a step ``stretch`` times as long."""
    products = products_of(kind, loss, weights, alpha)
    products.radius *= stretch
    vectors, length = products.both(v), norm(products.gradient())
    eps = torch.finfo(next(iter(weights.values())).dtype).eps
    return NoisyVectors(vectors, _ROUNDINGS * eps * length * norm(v) / products.radius)


def agreement(found: NoisyVectors | Sequence[Vector], exact: Sequence[Vector]) -> float:
    """Return the smallest cosine between found and exact vectors; 1 where they differ by rounding only.

    A network whose kinks are all frozen gives at least 0.999. Kinks that cannot be frozen, such as those of an
    operation with its own backward pass, can give any value.
    """
    vectors, noise = found if isinstance(found, NoisyVectors) else (found, 0.0)
    return min(_cosine(one, other, noise) for one, other in zip(vectors, exact, strict=True))


def _cosine(found: Vector, exact: Vector, noise: float) -> float:
    return 1.0 if norm(added(found, exact, -1.0)) <= noise else cosine(found, exact)
