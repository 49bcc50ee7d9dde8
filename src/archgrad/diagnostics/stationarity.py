"""The distance of weights and architecture from a stationary point."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from archgrad.arch_optimizers import Geometry
from archgrad.autodiff.gradients import gradients, leaves
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import V, Vector, added, dot, scaled
from archgrad.errors import UserError
from archgrad.parts.fields import checked
from archgrad.system.devices import widened
from archgrad.system.warn_once import warn_once

__all__ = ["bregman_stationarity"]

_log = logging.getLogger("archgrad")
_UNFINISHED = (
    "the proximal point of the Bregman stationarity was not reached in %d evaluations of the loss: the last step was "
    "%.2g of the way, and %.2g was asked for. Allow more steps, or lower lam, which is %.3g."
)
_FIRST_RATE = 8.0
_SIMPLEX_ERROR = 1e-3
_ROUNDINGS = 8
_WEIGHTS, _ALPHA = "weights ", "alpha "
"""The prefixes of the names of w and θ in one joint vector."""

JointLoss = Callable[[Weights, Alpha], Tensor]
"""A scalar of (w, θ)."""


@checked
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
    if not weights or not alpha:
        raise UserError(f"{'alpha' if weights else 'weights'} is empty; give at least one tensor.")
    start = {**_doubled(weights, _WEIGHTS), **_doubled(alpha, _ALPHA)}
    space = _Product.around(start, geometry, support)

    def evaluate(at: Vector) -> tuple[float, Vector]:
        w, theta = leaves(_part(at, _WEIGHTS, weights)), leaves(_part(at, _ALPHA, alpha))
        values: list[float] = []

        def recorded() -> Tensor:
            value = loss(w, theta)
            values.append(value.item())
            return value

        of_weights, of_alpha = gradients(recorded, w, theta)
        return values[0], {**_doubled(of_weights, _WEIGHTS), **_doubled(of_alpha, _ALPHA)}

    rounding = _ROUNDINGS * max(torch.finfo(value.dtype).eps for value in (*weights.values(), *alpha.values()))
    reached = _proximal_point(evaluate, space, start, lam, steps, tolerance, rounding)
    return math.nan if reached is None else space.both_ways(reached, start) / lam**2


@dataclass(frozen=True, eq=False)
class _Product:
    """The geometry ½‖w‖² + φ(θ) of vectors (w, θ), with θ on the part of the simplex that ``support`` marks."""

    geometry: Geometry
    support: Vector

    @classmethod
    def around(cls, start: Vector, geometry: Geometry, support: Mapping[str, Tensor] | None) -> _Product:
        inside = {}
        for name, theta in start.items():
            if not name.startswith(_ALPHA):
                continue
            block = name.removeprefix(_ALPHA)
            if bool((theta < 0).any() or ((theta.sum(-1) - 1).abs() > _SIMPLEX_ERROR).any()):
                raise UserError(
                    f"the architecture parameters of block {block!r} are not on the simplex, where Bregman "
                    f"stationarity is measured; choose a relaxation of the 'simplex' domain."
                )
            where = geometry.gradient(theta).isfinite()
            inside[name] = where if support is None else where & support[block].to(where.device)
        return cls(geometry, inside)

    def between(self, x: Vector, y: Vector) -> Vector:
        """Return ∇φ(x) − ∇φ(y), 0 outside the support."""
        apart = added(x, y, -1.0)
        for name, inside in self.support.items():
            apart[name] = (self.geometry.gradient(x[name]) - self.geometry.gradient(y[name])).where(inside, 0.0)
        return apart

    def both_ways(self, x: Vector, y: Vector) -> float:
        """Return D(x‖y) + D(y‖x) = ⟨∇φ(x) − ∇φ(y), x − y⟩."""
        return dot(self.between(x, y), added(x, y, -1.0))

    def divergence(self, x: Vector, y: Vector) -> float:
        """Return D(x‖y)."""
        apart = {name: value - y[name] for name, value in x.items() if name not in self.support}
        rows = [self.geometry.divergence(x[name], y[name]).sum().item() for name in self.support]
        return dot(apart, apart) / 2 + sum(rows)

    def step(self, at: Vector, slope: Vector) -> Vector:
        """Return argmin of ⟨slope, u⟩ + D(u‖at)."""
        moved = added(at, slope, -1.0)
        for name, inside in self.support.items():
            moved[name] = self.geometry.step(at[name], slope[name], inside)
        return moved


def _proximal_point(
    evaluate: Callable[[Vector], tuple[float, Vector]],
    space: _Product,
    start: Vector,
    lam: float,
    steps: int,
    tolerance: float,
    rounding: float,
) -> Vector | None:
    """Minimize λ·f(u) + D(u‖x) from x on, or return None if f is not finite at x.

    Each step linearizes only f: argmin of s·(λ⟨∇f(u), v⟩ + D(v‖x)) + D(v‖u), which is a mirror step of length
    s/(1+s) along λ∇f(u) + ∇φ(u) − ∇φ(x). s is halved until f bends less than D/s (relative smoothness). ``rounding`` is
    the relative error of the loss; smaller differences are ignored.
    """
    at, rate, way = start, _FIRST_RATE, math.inf
    value, slope = evaluate(at)
    if not math.isfinite(value):
        return None
    weights = {name: value for name, value in start.items() if name.startswith(_WEIGHTS)}
    nothing = rounding**2 * (1 + dot(weights, weights))
    for _ in range(steps):
        length = rate / (1 + rate)
        pull = space.between(at, start)
        trial = space.step(at, scaled(added(pull, slope, lam), length))
        trial_value, trial_slope = evaluate(trial)
        bend = lam * (trial_value - value - dot(slope, added(trial, at, -1.0)))
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


def _doubled(vector: Vector, prefix: str) -> Vector:
    return {prefix + name: widened(value.detach()) for name, value in vector.items()}


def _part(vector: Vector, prefix: str, like: V) -> V:
    return cast(V, {name: vector[prefix + name].to(value.dtype) for name, value in like.items()})
