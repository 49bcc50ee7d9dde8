"""The implicit function theorem, word for word."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from archgrad.autodiff.krylov import dense
from archgrad.autodiff.products import Products
from archgrad.autodiff.vectors import flattened, unflattened
from archgrad.errors import UserError
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.implicit import Implicit
from archgrad.tensors import Weights

__all__ = ["ExactImplicit"]

_LIMIT = 5000


@dataclass(frozen=True)
class ExactImplicit(Implicit):
    """∂L2/∂α − M·H⁻¹·∂L2/∂w with the Hessian as a matrix (iDARTS, Eq. 6): exact where ∂L1/∂w = 0.

    One Hessian product for every weight and O(P²) memory: for small problems, at most 5,000 weights.
    """

    def check(self, weights: int) -> None:
        """Refuse more weights than a matrix can be built for."""
        if weights > _LIMIT:
            raise UserError(
                f"ExactImplicit builds the Hessian of {weights} weights as a matrix; it is for at most {_LIMIT}. "
                f"Use ConjugateGradient or Neumann, which need its products only."
            )

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve H·x = b."""
        self.check(sum(value.numel() for value in b.values()))
        matrix = dense(products.hessian, b)
        solution, failed = torch.linalg.solve_ex((matrix + matrix.T) / 2, flattened(b))
        if failed:
            raise UserError(
                "the Hessian of the inner loss is singular, so that w* is no function of α; add a little weight decay "
                "to the inner loss, or use ConjugateGradient with damping."
            )
        return unflattened(solution, b)
