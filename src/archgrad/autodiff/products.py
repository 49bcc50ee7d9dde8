"""Second-derivative products of the inner loss, exact or by differences of gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.frozen_activations import ActivationPattern, evaluate_frozen
from archgrad.autodiff.gradients import gradients, leaves, named_like
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import Vector, added, length, scaled, zeros_like

__all__ = [
    "ExactProducts",
    "FiniteProducts",
    "ForwardProducts",
    "HessianProducts",
    "InnerLoss",
    "Kinks",
    "ProductKind",
    "Products",
    "products_of",
]

ProductKind = Literal["exact", "finite", "forward", "exact-hessian"]
"""How products are computed: by double backward, by central differences, by one-sided ones, or H·v by double backward
and M·v by central differences."""

Kinks = Literal["frozen", "crossed"]
"""Whether differences keep the activation pattern of w, or evaluate the loss itself on both sides."""

Variables = tuple[str, ...]
"""A subset of "weights" and "alpha"."""

InnerLoss = Callable[[Weights, Alpha], Tensor]


class Products(ABC):
    """The first and second derivatives of L1 at one point: ∂L1/∂w, H·v = ∂²L1/∂w∂w·v and M·v = ∂²L1/∂α∂w·v.

    ``radius`` is the step length of a difference; infinite for exact products.
    """

    radius: float = math.inf

    def __init__(self, loss: InnerLoss, weights: Weights, alpha: Alpha) -> None:
        self.loss, self.weights, self.alpha = loss, weights, alpha

    @abstractmethod
    def gradient(self) -> Weights:
        """Return ∂L1/∂w."""

    def hessian(self, v: Weights) -> Weights:
        """Return H·v."""
        return Weights(self.product(v, ("weights",))[0])

    def mixed(self, v: Weights) -> Alpha:
        """Return M·v; no gradient of the weights is computed for it."""
        return Alpha(self.product(v, ("alpha",))[0])

    def both(self, v: Weights) -> tuple[Weights, Alpha]:
        """Return H·v and M·v, at little more than the cost of one."""
        hessian, mixed = self.product(v, ("weights", "alpha"))
        return Weights(hessian), Alpha(mixed)

    @abstractmethod
    def product(self, v: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Return the gradients of ⟨∂L1/∂w, v⟩ with respect to the wanted variables."""


class ExactProducts(Products):
    """Exact products by double backward: H·v and M·v are the gradients of ⟨∂L1/∂w, v⟩ with respect to w and α.

    The forward pass and ∂L1/∂w are computed once, when first needed; all products share their graph.
    """

    def __init__(self, loss: InnerLoss, weights: Weights, alpha: Alpha) -> None:
        super().__init__(loss, leaves(weights), leaves(alpha))
        self._graph: Weights | None = None

    def gradient(self) -> Weights:
        """Return ∂L1/∂w."""
        return Weights({name: value.detach() for name, value in self._gradient().items()})

    def _gradient(self) -> Weights:
        if self._graph is None:
            (self._graph,) = gradients(self._forward, self.weights, create_graph=True)
        return self._graph

    def _forward(self) -> Tensor:
        with TwiceDifferentiable():  # the pattern: PyTorch cannot differentiate hardsigmoid twice
            return ActivationPattern().evaluate(lambda: self.loss(self.weights, self.alpha))

    def product(self, v: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Walk back through ∂L1/∂w once for all that is wanted."""
        variables: list[Vector] = [getattr(self, name) for name in wanted]
        outputs = {name: value for name, value in self._gradient().items() if value.requires_grad}
        if not outputs:  # L1 is linear in w
            return tuple(map(zeros_like, variables))
        found = torch.autograd.grad(
            list(outputs.values()),
            [value for vector in variables for value in vector.values()],
            [v[name] for name in outputs],
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        return named_like(found, variables)


class _DifferenceProducts(Products):
    """Differences of gradients along v, with all kinks frozen at w, or crossed.

    See :class:`~archgrad.autodiff.frozen_activations.ActivationPattern`. Only the weights and that pattern stay in
    memory between products.
    """

    def __init__(self, loss: InnerLoss, weights: Weights, alpha: Alpha, kinks: Kinks = "frozen") -> None:
        super().__init__(loss, weights, alpha)
        self.pattern = ActivationPattern() if kinks == "frozen" else None

    @abstractmethod
    def difference(self, step: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Return the change of the wanted gradients along ``step``."""

    def at(self, weights: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Return the wanted gradients of L1 at other weights, with the pattern of this point unless it is crossed."""
        values: dict[str, Vector] = {"weights": weights, "alpha": self.alpha}
        values |= {name: leaves(values[name]) for name in wanted}
        return gradients(
            lambda: self._evaluate(Weights(values["weights"]), Alpha(values["alpha"])),
            *(values[name] for name in wanted),
        )

    def _evaluate(self, weights: Weights, alpha: Alpha) -> Tensor:
        return evaluate_frozen(self.pattern, lambda: self.loss(weights, alpha))

    def product(self, v: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Divide the change of the gradients along v by the length of the step."""
        size = length(v)
        if isinstance(size, float) and not size:
            return tuple(zeros_like(getattr(self, name)) for name in wanted)
        changes = self.difference(scaled(v, self.radius / size), wanted)
        return tuple(scaled(change, size / self.radius) for change in changes)


class FiniteProducts(_DifferenceProducts):
    """Central differences: H·v ≈ [∂L1/∂w(w+εv) − ∂L1/∂w(w−εv)]/2ε, M·v the same of ∂L1/∂α, ε = 0.01/‖v‖.

    The ε is that of DARTS (Section 2.3); the error falls as ε². The papers cross the kinks (DARTS, Section 2.3; iDARTS,
    Eq. 46 and 47; Amended-DARTS, A.2).
    """

    radius = 0.01

    def gradient(self) -> Weights:
        """Return ∂L1/∂w."""
        return Weights(self.at(self.weights, ("weights",))[0])

    def difference(self, step: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Return half the difference of the gradients on both sides."""
        if self.pattern is not None and not self.pattern.recorded:
            with torch.no_grad():
                self._evaluate(self.weights, self.alpha)
        ahead = self.at(added(self.weights, step), wanted)
        behind = self.at(added(self.weights, step, -1.0), wanted)
        return tuple(scaled(added(x, y, -1.0), 0.5) for x, y in zip(ahead, behind, strict=True))


class HessianProducts(FiniteProducts):
    """H·v by double backward and M·v by central differences, as iDARTS computes them (Appendix B)."""

    def __init__(self, loss: InnerLoss, weights: Weights, alpha: Alpha, kinks: Kinks = "frozen") -> None:
        super().__init__(loss, weights, alpha, kinks)
        self._exact = ExactProducts(loss, weights, alpha)

    def gradient(self) -> Weights:
        """Return ∂L1/∂w."""
        return self._exact.gradient()

    def hessian(self, v: Weights) -> Weights:
        """Return H·v."""
        return self._exact.hessian(v)

    def both(self, v: Weights) -> tuple[Weights, Alpha]:
        """Return H·v and M·v, each in its own way."""
        return self.hessian(v), self.mixed(v)


class ForwardProducts(_DifferenceProducts):
    """One-sided differences: H·v ≈ [∂L1/∂w(w+εv) − ∂L1/∂w(w)]/ε, M·v the same of ∂L1/∂α, ε = 0.0003/‖v‖.

    All products share the gradients at w, so each costs one more gradient: half the cost of central differences.
    The error falls only as ε, but ε can be small because the pattern is frozen.
    """

    radius = 0.0003

    def __init__(self, loss: InnerLoss, weights: Weights, alpha: Alpha, kinks: Kinks = "frozen") -> None:
        super().__init__(loss, weights, alpha, kinks)
        self._here: dict[str, Vector] = {}

    def gradient(self) -> Weights:
        """Return ∂L1/∂w, which all products share."""
        return Weights(self._base(("weights",))[0])

    def difference(self, step: Weights, wanted: Variables) -> tuple[Vector, ...]:
        """Return the gradients ahead minus those at w."""
        here = self._base(wanted)
        ahead = self.at(added(self.weights, step), wanted)
        return tuple(added(x, y, -1.0) for x, y in zip(ahead, here, strict=True))

    def _base(self, wanted: Variables) -> tuple[Vector, ...]:
        """Return gradients at w; with those of the weights, compute those of α too, which are needed later."""
        if any(name not in self._here for name in wanted):
            names: Variables = ("weights", "alpha") if "weights" in wanted else wanted
            self._here |= dict(zip(names, self.at(self.weights, names), strict=True))
        return tuple(self._here[name] for name in wanted)


_DIFFERENCES: dict[str, type[_DifferenceProducts]] = {
    "finite": FiniteProducts,
    "forward": ForwardProducts,
    "exact-hessian": HessianProducts,
}


def products_of(
    kind: ProductKind, loss: InnerLoss, weights: Weights, alpha: Alpha, kinks: Kinks = "frozen"
) -> Products:
    """Return the products of this kind at a point; ``kinks`` matter to differences only."""
    if kind == "exact":
        return ExactProducts(loss, weights, alpha)
    return _DIFFERENCES[kind](loss, weights, alpha, kinks)
