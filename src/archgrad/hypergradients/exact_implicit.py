"""The implicit function theorem with an exact inverse Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from archgrad.autodiff.krylov import dense
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import flattened, unflattened
from archgrad.errors import UserError
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.implicit import Implicit

__all__ = ["ExactImplicit"]

_LARGEST = 5000
"""The most weights of which a dense Hessian is built."""


@dataclass(frozen=True)
class ExactImplicit(Implicit):
    """∂L2/∂α − M·H⁻¹·∂L2/∂w with the Hessian as a matrix (iDARTS, Eq. 6): exact where ∂L1/∂w = 0.

    It takes one Hessian product per weight and O(P²) memory: for small problems of at most 5,000 weights.
    """

    def check(self, weights: int) -> None:
        """Reject more weights than a dense Hessian allows."""
        if weights > _LARGEST:
            raise UserError(
                f"ExactImplicit builds the dense Hessian of {weights} weights, but its limit is {_LARGEST}; use "
                f"ConjugateGradient or Neumann, which need only Hessian products."
            )

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve H·x = b."""
        self.check(sum(value.numel() for value in b.values()))
        matrix = dense(products.hessian, b)
        solution, failed = torch.linalg.solve_ex((matrix + matrix.T) / 2, flattened(b))
        if failed:
            raise UserError(
                "the Hessian of the inner loss is singular, so w* is not a function of α; add a little weight decay to "
                "the inner loss, or use ConjugateGradient with damping."
            )
        return unflattened(solution, b)
