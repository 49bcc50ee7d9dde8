"""The base of estimates that differentiate through steps of the inner descent."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch

from archgrad.autodiff.gradients import gradients, leaves
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added
from archgrad.bilevel.descent import InnerDescent
from archgrad.hypergradients.base import HypergradientState, SecondOrder
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.parts.fields import Positive

__all__ = ["Reverse"]


@dataclass(frozen=True, kw_only=True)
class Reverse(SecondOrder):
    """Take virtual steps w_t = Φ(w_{t−1}, α) from the current weights and differentiate L2(w_T, α) through the last.

    Each member sets the number of steps, and how many of them are kept. Φ is the descent of the weights, SGD, Adam or
    AdamW, with momentum and weight decay, without gradient clipping. ``lr`` None is its current learning rate. Exact
    products keep the graph of every kept step; differences keep only its weights, gradient and activation pattern.
    """

    optimizers: ClassVar[tuple[str, ...]] = ("sgd", "adam", "adamw")

    lr: Positive | None = None

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Go forward, then back."""
        steps, kept = self.lengths
        weights, descent = self._after(point, steps - kept)
        path: list[_Kept] = []
        for index in range(steps - kept, steps):
            products = self.products_at(point, index, weights)
            path.append(_Kept(products, descent, products.gradient()))
            weights, descent = descent.step(weights, path[-1].gradient)
        return _back(path, *point.outer(weights)), state

    def direct(self, point: EvaluationPoint) -> Alpha:
        """Return ∂L2/∂α after the virtual steps."""
        return replace(point, weights=self._after(point, self.lengths[0])[0]).direct()

    def descent(self, point: EvaluationPoint) -> InnerDescent:
        """Return how the virtual steps descend."""
        return point.descent_at(self.lr)

    def _after(self, point: EvaluationPoint, steps: int) -> tuple[Weights, InnerDescent]:
        weights, descent = point.weights, self.descent(point)
        for index in range(steps):
            weights, descent = descent.step(weights, _gradient(point, index, weights))
        return weights, descent

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, int]:
        """The number of steps, and how many of them are kept."""

    @property
    def inner_batches(self) -> int:
        """One for each step."""
        return self.lengths[0]


class _Kept(NamedTuple):
    """A step that is differentiated."""

    products: Products
    descent: InnerDescent
    gradient: Weights


def _gradient(point: EvaluationPoint, step: int, weights: Weights) -> Weights:
    at = leaves(weights)
    return gradients(lambda: point.inner(step)(at, point.alpha), at)[0]


def _back(path: list[_Kept], of_alpha: Alpha, of_weights: Weights) -> Alpha:
    """Carry the gradients of L2(w_T, α) back along the path.

    The gradient of a step reaches α through M and the earlier weights through H (iDARTS, Eq. 4).
    """
    of_state: Any = None
    while path:
        products, descent, gradient = path.pop()
        with torch.no_grad():
            of_gradient, of_weights, of_state = descent.pull_back(products.weights, gradient, of_weights, of_state)
        if not path:
            return added(of_alpha, products.mixed(of_gradient))
        hessian, mixed = products.both(of_gradient)
        of_alpha, of_weights = added(of_alpha, mixed), added(of_weights, hessian)
    return of_alpha
