"""iDARTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from archgrad.autodiff.krylov import extreme_eigenvalues, neumann
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Weights
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.implicit import Implicit
from archgrad.parts.fields import Positive, Range

__all__ = ["Neumann", "largest_safe_rate"]

_LANCZOS_STEPS = 8


@dataclass(frozen=True)
class Neumann(Implicit):
    """∂L2/∂α − γ·M·Σ_{k=0..K} (I − γH)^k·∂L2/∂w (iDARTS, Eq. 8 and 9), K = ``terms``, γ = ``lr``.

    All products use the same inner batch. γ must be below 1/λmax(H) (Corollary 1). None is the weights' current
    learning rate; "auto" is 1/max|λ| by Lanczos, for 8 more Hessian products.

    >>> import torch
    >>> from archgrad.bilevel.problem import BilevelProblem
    >>> loss = lambda w, a, x: (w["w"] * x - a["a"]) ** 2  # the toy of Amended-DARTS, A.1
    >>> point = {"w": torch.tensor(3.0)}, {"a": torch.tensor(3.0)}
    >>> Neumann(terms=0, lr=0.5)(BilevelProblem(loss, loss), *point, torch.tensor(1.0), torch.tensor(2.0))
    {'a': tensor(6.)}
    """

    terms: Annotated[int, Range(0, 10_000)] = 2
    lr: Positive | Literal["auto"] | None = None

    @property
    def optimizers(self) -> tuple[str, ...] | None:
        """The learning rate of another than SGD says nothing of the largest γ for which the series converges."""
        return ("sgd",) if self.lr is None else None

    @property
    def callbacks(self) -> Mapping[str, Mapping[str, Any]]:
        """A callback that measures whether the series can converge."""
        return {"inner-curvature": {"lr": self.lr}}

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return x = γ·Σ (I − γH)^k·b."""
        return neumann(products.hessian, b, self.terms, self.rate(products, b, point))

    def rate(self, products: Products, b: Weights, point: EvaluationPoint) -> float:
        """Return γ at this point."""
        if isinstance(self.lr, str):
            return largest_safe_rate(*extreme_eigenvalues(products.hessian, b, _LANCZOS_STEPS))
        return point.rate(self.lr)


def largest_safe_rate(smallest: float, largest: float) -> float:
    """Return 1/max|λ|: 1/λmax where H is positive (iDARTS, Corollary 1), less where a negative λ is larger.

    Along a negative λ the terms of the series grow; with this γ each is at most twice the one before.
    """
    steepest = max(largest, -smallest)
    return 1 / steepest if steepest > 0 else 1.0
