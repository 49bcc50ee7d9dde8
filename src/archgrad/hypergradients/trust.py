"""Whether differences of gradients can be trusted: one of them beside the exact product."""

from __future__ import annotations

import torch

from archgrad.hypergradients.point import Point
from archgrad.hypergradients.products import Kind, products_of
from archgrad.linalg import Vector, added, cosine, norm

__all__ = ["LEAST_COSINE", "agreement", "vector_agreement"]

LEAST_COSINE = 0.99
"""Differences whose cosine to the exact product is below this are not used."""

_NOISE = 10.0
"""How many times its rounding error a difference may be off without a cosine being asked for."""


def agreement(point: Point, kind: Kind) -> float:
    """Return the smaller of the cosines of H·v and M·v by differences of this kind to the exact ones; v is ∂L2/∂w.

    A network whose kinks are all frozen gives 0.999 and more. An operation with kinks that cannot be frozen, such as
    one that brings its own backward pass, gives anything.
    """
    inner, weights, alpha = point.inner(), point.weights, point.alpha
    _, v = point.outer()
    differences = products_of(kind, inner, weights, alpha)
    found, exact = differences.both(v), products_of("exact", inner, weights, alpha).both(v)
    slope = norm(differences.gradient())
    noise = _NOISE * torch.finfo(next(iter(weights.values())).dtype).eps * slope * norm(v) / differences.radius
    return min(vector_agreement(one, other, noise) for one, other in zip(found, exact, strict=True))


def vector_agreement(found: Vector, exact: Vector, noise: float = 0.0) -> float:
    """Return the cosine of two vectors, or 1 where they differ by no more than the noise of rounding."""
    if norm(added(found, exact, -1.0)) <= noise:
        return 1.0
    return cosine(found, exact)
