"""The distance of weights and architecture from a stationary point."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor

from archgrad.arch_optimizers import Geometry
from archgrad.autodiff.gradients import gradients, leaves
from archgrad.autodiff.vectors import V, Vector, added, dot, scaled
from archgrad.errors import UserError
from archgrad.tensors import Alpha, Weights
from archgrad.warn_once import warn_once

__all__ = ["bregman_stationarity"]

_log = logging.getLogger("archgrad")
_UNFINISHED = (
    "the proximal point of the Bregman stationarity was not reached in %d evaluations of the loss: the last step was "
    "%.2g of the way, and %.2g was asked for. Allow more steps, or lower lam, which is %.3g."
)
_FIRST_RATE = 8.0
_SIMPLEX_ERROR = 1e-3
_ROUNDINGS = 8

JointLoss = Callable[[Weights, Alpha], Tensor]
"""A scalar of (w, θ)."""


def bregman_stationarity(
    loss: JointLoss,
    weights: Weights,
    alpha: Alpha,
    geometry: Geometry,
    lam: float,
    *,
    support: Mapping[str, Tensor] | None = None,
    steps: int = 1000,
    tolerance: float = 1e-6,
) -> float:
    """Return Δ_λ(x) = (D(x‖u) + D(u‖x)) / λ², where u = argmin of λ·f(u) + D(u‖x) and x = (w, θ) (GAEA, Eq. 7).

    D is ½‖·‖² on the weights and that of ``geometry`` on θ, ``{block: [rows, choices]}`` with rows on the simplex;
    ``support`` marks the choices that exist (None: all). Where θ is unconstrained and λ small, Δ_λ is ‖∇f‖². Mirror
    descent seeks u until a step is shorter than ``tolerance`` times the distance from x, with at most ``steps``
    evaluations; if those do not suffice, it warns once. The result is NaN if the loss is not finite.
    """
    start = _Place(_doubled(weights), _doubled(alpha))
    space = _Product.around(start, geometry, support)

    def evaluate(at: _Place) -> tuple[float, _Place]:
        w, theta = leaves(_typed(at.weights, weights)), leaves(_typed(at.alpha, alpha))
        values: list[float] = []

        def recorded() -> Tensor:
            value = loss(w, theta)
            values.append(value.item())
            return value

        of_weights, of_alpha = gradients(recorded, w, theta)
        return values[0], _Place(_doubled(of_weights), _doubled(of_alpha))

    rounding = _ROUNDINGS * max(torch.finfo(value.dtype).eps for value in (*weights.values(), *alpha.values()))
    reached = _proximal_point(evaluate, space, start, lam, steps, tolerance, rounding)
    return math.nan if reached is None else space.both_ways(reached, start) / lam**2


class _Place(NamedTuple):
    """Weights and architecture, or their duals, in float64."""

    weights: Vector
    alpha: Vector


@dataclass(frozen=True, eq=False)
class _Product:
    """The geometry ½‖w‖² + φ(θ), with θ on the part of the simplex that ``support`` marks."""

    geometry: Geometry
    support: Vector

    @classmethod
    def around(cls, start: _Place, geometry: Geometry, support: Mapping[str, Tensor] | None) -> _Product:
        for name, theta in start.alpha.items():
            if bool((theta < 0).any() or ((theta.sum(-1) - 1).abs() > _SIMPLEX_ERROR).any()):
                raise UserError(
                    f"the architecture parameters of block {name!r} are not on the simplex, where Bregman stationarity "
                    f"is measured; choose a relaxation of the 'simplex' domain."
                )
        inside = {name: geometry.gradient(theta).isfinite() for name, theta in start.alpha.items()}
        if support is not None:
            inside = {name: where & support[name].to(where.device) for name, where in inside.items()}
        return cls(geometry, inside)

    def between(self, x: _Place, y: _Place) -> _Place:
        """Return ∇φ(x) − ∇φ(y), 0 outside the support."""
        alpha = {
            name: (self.geometry.gradient(theta) - self.geometry.gradient(y.alpha[name])).where(self.support[name], 0.0)
            for name, theta in x.alpha.items()
        }
        return _Place(added(x.weights, y.weights, -1.0), alpha)

    def both_ways(self, x: _Place, y: _Place) -> float:
        """Return D(x‖y) + D(y‖x) = ⟨∇φ(x) − ∇φ(y), x − y⟩."""
        return _product(self.between(x, y), _added(x, y, -1.0))

    def divergence(self, x: _Place, y: _Place) -> float:
        """Return D(x‖y)."""
        apart = added(x.weights, y.weights, -1.0)
        rows = [self.geometry.divergence(theta, y.alpha[name]).sum().item() for name, theta in x.alpha.items()]
        return dot(apart, apart) / 2 + sum(rows)

    def step(self, at: _Place, slope: _Place) -> _Place:
        """Return argmin of ⟨slope, u⟩ + D(u‖at)."""
        alpha = {
            name: self.geometry.step(theta, slope.alpha[name], self.support[name]) for name, theta in at.alpha.items()
        }
        return _Place(added(at.weights, slope.weights, -1.0), alpha)


def _proximal_point(
    evaluate: Callable[[_Place], tuple[float, _Place]],
    space: _Product,
    start: _Place,
    lam: float,
    steps: int,
    tolerance: float,
    rounding: float,
) -> _Place | None:
    """Minimize λ·f(u) + D(u‖x) from x on, or return None if f is not finite at x.

    Each step linearizes only f: argmin of s·(λ⟨∇f(u), v⟩ + D(v‖x)) + D(v‖u), which is a mirror step of length
    s/(1+s) along λ∇f(u) + ∇φ(u) − ∇φ(x). s is halved until f bends less than D/s (relative smoothness). ``rounding`` is
    the relative error of the loss; smaller differences are ignored.
    """
    at, rate, way = start, _FIRST_RATE, math.inf
    value, slope = evaluate(at)
    if not math.isfinite(value):
        return None
    nothing = rounding**2 * (1 + dot(start.weights, start.weights))
    for _ in range(steps):
        length = rate / (1 + rate)
        pull = space.between(at, start)
        trial = space.step(at, _scaled(_added(pull, slope, lam), length))
        trial_value, trial_slope = evaluate(trial)
        bend = lam * (trial_value - value - _product(slope, _added(trial, at, -1.0)))
        if not bend <= space.divergence(trial, at) / rate + rounding * lam * abs(value):
            rate /= 2
            continue
        moved, gone = space.both_ways(trial, at), space.both_ways(trial, start)
        at, value, slope = trial, trial_value, trial_slope
        way = math.sqrt(moved / gone) / length if gone > nothing else 0.0
        if way <= tolerance:
            return at
    warn_once(_log, _UNFINISHED, steps, way, tolerance, lam)
    return at


def _product(x: _Place, y: _Place) -> float:
    return dot(x.weights, y.weights) + dot(x.alpha, y.alpha)


def _added(x: _Place, y: _Place, factor: float) -> _Place:
    return _Place(added(x.weights, y.weights, factor), added(x.alpha, y.alpha, factor))


def _scaled(x: _Place, factor: float) -> _Place:
    return _Place(scaled(x.weights, factor), scaled(x.alpha, factor))


def _doubled(vector: Vector) -> Vector:
    return {name: value.detach().double() for name, value in vector.items()}


def _typed(vector: Vector, like: V) -> V:
    return cast(V, {name: value.to(like[name].dtype) for name, value in vector.items()})
