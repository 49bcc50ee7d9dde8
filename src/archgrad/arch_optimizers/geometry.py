"""Geometries of the probability simplex: distance-generating functions, and the steps they lead to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.system.devices import widened

__all__ = ["GEOMETRIES", "Entropy", "Euclidean", "Geometry"]


class Geometry(ABC):
    """A distance-generating function φ of rows on the simplex, tensors ``[..., rows, choices]``.

    For several rows, φ is the sum. ``floor`` is the default lower bound of mirror descent on its weights.
    """

    floor: ClassVar[float]

    @abstractmethod
    def gradient(self, theta: Tensor) -> Tensor:
        """Return ∇φ."""

    @abstractmethod
    def divergence(self, u: Tensor, v: Tensor) -> Tensor:
        """Return D(u‖v) = φ(u) − φ(v) − ⟨∇φ(v), u − v⟩ of each row, ``[..., rows]``."""

    @abstractmethod
    def step(self, theta: Tensor, slope: Tensor, support: Tensor) -> Tensor:
        """Return argmin over u of ⟨slope, u⟩ + D(u‖θ), on the simplex and 0 outside ``support`` (GAEA, Eq. 6).

        ``slope`` is the learning rate times the gradient; pass it in float64 if it may be large. The result has the
        type of θ.
        """


@dataclass(frozen=True)
class Entropy(Geometry):
    """φ(θ) = Σ θ·log θ with 0·log 0 = 0; on the simplex, D is the Kullback-Leibler divergence.

    It is 1-strongly convex in ‖·‖₁, so its steps hardly depend on the number of choices (GAEA, Section 3.1).
    """

    floor: ClassVar[float] = 1e-5

    def gradient(self, theta: Tensor) -> Tensor:
        """Return log θ + 1, which is −∞ at 0."""
        return theta.log() + 1

    def divergence(self, u: Tensor, v: Tensor) -> Tensor:
        """Return Σ u·log(u/v) − u + v: infinite where v is 0 and u is not."""
        return (torch.xlogy(u, u) - torch.xlogy(u, v) - u + v).sum(-1)

    def step(self, theta: Tensor, slope: Tensor, support: Tensor) -> Tensor:
        """Return θ ⊙ exp(−slope), normalized (GAEA, Eq. 5), by its logarithms in float64."""
        weights = widened(theta)
        alive = support & (weights > 0)
        logs = weights.log() - _above_smallest(slope, alive)
        return torch.softmax(logs.masked_fill(~alive, -torch.inf), dim=-1).to(theta)


@dataclass(frozen=True)
class Euclidean(Geometry):
    """φ(θ) = ½‖θ‖²: D(u‖v) = ½‖u − v‖², and a step is one of projected gradient descent (GAEA, Eq. 4)."""

    floor: ClassVar[float] = 0.0

    def gradient(self, theta: Tensor) -> Tensor:
        """Return θ itself."""
        return theta.clone()

    def divergence(self, u: Tensor, v: Tensor) -> Tensor:
        """Return ½‖u − v‖²."""
        return (u - v).square().sum(-1) / 2

    def step(self, theta: Tensor, slope: Tensor, support: Tensor) -> Tensor:
        """Return the point of the simplex nearest to θ − slope, in float64."""
        moved = (widened(theta) - _above_smallest(slope, support)).masked_fill(~support, -torch.inf)
        return (_projected(moved) * support).to(theta)


GEOMETRIES: dict[str, Geometry] = {"entropy": Entropy(), "euclidean": Euclidean()}
"""The geometries by name."""


def _above_smallest(slope: Tensor, among: Tensor) -> Tensor:
    """Return the slope minus its row's smallest value among these, in float64; on the simplex nothing changes.

    Slopes are clamped to half the largest float, so no difference of two overflows.
    """
    slope = widened(slope)
    steepest = torch.finfo(slope.dtype).max / 2
    slope = slope.clamp(-steepest, steepest)
    return slope - slope.masked_fill(~among, torch.inf).amin(-1, keepdim=True)


def _projected(moved: Tensor) -> Tensor:
    """Project rows onto the simplex: max(0, y − τ), where sorting finds the entries above τ.

    τ is at least the row's largest value minus 1, so entries may be clamped at 2 below the largest.
    """
    moved = moved - moved.amax(-1, keepdim=True)
    moved = moved.clamp_min(-2.0)
    falling = moved.sort(dim=-1, descending=True).values
    counts = torch.arange(1, moved.shape[-1] + 1, dtype=moved.dtype, device=moved.device)
    thresholds = (falling.cumsum(-1) - 1) / counts
    above = (falling > thresholds).sum(-1, keepdim=True)
    return (moved - thresholds.gather(-1, above - 1)).clamp_min(0.0)
