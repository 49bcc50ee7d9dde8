"""Krylov solvers: linear systems and eigenvalues from matrix-vector products alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.vectors import V, Vector, added, dot, flattened, norm, scaled, unflattened, zeros_like

__all__ = ["Operator", "Solution", "conjugate_gradient", "dense", "extreme_eigenvalues", "neumann"]

Operator = Callable[[V], V]
"""A matrix A, as the function v ↦ A·v."""


def neumann(apply: Operator[V], b: V, terms: int, lr: float) -> V:
    """Approximate A⁻¹·b by γ·Σ_{k=0..K} (I − γA)^k·b, with K = ``terms`` products (iDARTS, Lemma 3 and Eq. 8).

    The error falls as (1 − γμ)^{K+1} where μI ⪯ A ⪯ I/γ (Theorem 1).
    """
    term = total = b
    for _ in range(terms):
        term = added(term, apply(term), -lr)
        total = added(total, term)
    return scaled(total, lr)


class Solution(NamedTuple):
    """The solution x, and the curvature pᵀAp/pᵀp if conjugate gradient stopped because it was not positive."""

    x: Vector
    bad_curvature: float | None = None


def conjugate_gradient(apply: Operator[V], b: V, steps: int, damping: float = 0.0, start: V | None = None) -> Solution:
    """Solve (A + δI)·x = b for a symmetric A; exact after dim(b) steps if A + δI is positive definite.

    It stops early at a zero residual, and at a direction of non-positive curvature, where the method breaks down. It
    begins at ``start``, which takes one product, or at 0.
    """
    x, residual = (zeros_like(b), b) if start is None else (start, added(b, apply(start), -1.0))
    if start is not None:
        residual = added(residual, start, -damping)
    direction, error = residual, dot(residual, residual)
    target = dot(b, b) * _smallest(b) ** 2
    for _ in range(steps):
        if error <= target:
            break
        image = added(apply(direction), direction, damping)
        curvature = dot(direction, image)
        if curvature <= 0:
            return Solution(x, curvature / dot(direction, direction))
        x = added(x, direction, error / curvature)
        residual = added(residual, image, -error / curvature)
        last, error = error, dot(residual, residual)
        direction = added(residual, direction, error / last)
    return Solution(x)


def extreme_eigenvalues(apply: Operator[V], start: V, steps: int) -> tuple[float, float]:
    """Approximate (λmin, λmax) of a symmetric A by ``steps`` Lanczos products; both lie inside the spectrum.

    They are the extreme eigenvalues of A within the span of start, A·start, A²·start, … Plain power iteration finds
    only the eigenvalue of largest magnitude, and more slowly.

    >>> apply = lambda v: {"v": torch.tensor([5.0, 2.0, -1.0]) * v["v"]}
    >>> [round(value, 4) for value in extreme_eigenvalues(apply, {"v": torch.ones(3)}, 3)]
    [-1.0, 5.0]
    """
    length = norm(start)
    if not length > 0:
        return 0.0, 0.0
    last, vector = zeros_like(start), scaled(start, 1 / length)
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(steps):
        image = added(apply(vector), last, -beside[-1] if beside else 0.0)
        diagonal.append(dot(vector, image))
        image = added(image, vector, -diagonal[-1])
        length = norm(image)
        if not (math.isfinite(length) and length > _smallest(start) * max(map(abs, diagonal))):
            break
        last, vector = vector, scaled(image, 1 / length)
        beside.append(length)
    return _tridiagonal_ends(diagonal, beside[: len(diagonal) - 1])


def _tridiagonal_ends(diagonal: list[float], beside: list[float]) -> tuple[float, float]:
    off = torch.diag(torch.tensor(beside, dtype=torch.float64), 1)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64)) + off + off.T
    if not bool(matrix.isfinite().all()):
        return math.nan, math.nan
    values = torch.linalg.eigvalsh(matrix)
    return values[0].item(), values[-1].item()


def dense(apply: Operator[V], like: V) -> Tensor:
    """Return A as a matrix, by one product per column."""
    basis: Iterable[Tensor] = torch.eye(sum(value.numel() for value in like.values())).to(flattened(like))
    return torch.stack([flattened(apply(unflattened(column, like))) for column in basis], dim=1)


def _smallest(x: Mapping[str, Tensor]) -> float:
    """Return the largest relative rounding error of the tensors' types."""
    return max((torch.finfo(value.dtype).eps for value in x.values()), default=0.0)
