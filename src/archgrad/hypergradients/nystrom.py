"""The inverse Hessian of a random sketch of low rank."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, flattened, scaled, unflattened
from archgrad.hypergradients.base import HypergradientState, Iterations, SecondOrder
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.parts.fields import Positive

__all__ = ["Nystrom"]


@dataclass(frozen=True)
class Nystrom(SecondOrder):
    """∂L2/∂α − M·(H_k + δI)⁻¹·∂L2/∂w with the Nyström approximation of H (Hataya & Yamada, 2023, Eq. 6).

    H_k = C·H_KK⁺·Cᵀ, where C are k = ``rank`` columns of H, drawn at random, and H_KK their rows of the same numbers.
    By Woodbury's formula (H_k + δI)⁻¹ = I/δ − C·(H_KK + CᵀC/δ)⁻¹·Cᵀ/δ². With as many columns as weights it is exact
    for H + δI, δ = ``damping``. Where H is not positive, an eigenvalue of H_k near −δ makes the estimate large.

    The paper draws new columns at every step; here a sketch serves for ``every`` steps of α, which then cost no Hessian
    product. The state keeps it: k vectors like the weights.
    """

    rank: Iterations = 10
    damping: Positive = 0.01
    every: Iterations = 1

    def init(self, weights: Weights, alpha: Alpha) -> HypergradientState:
        """Return an empty sketch, which the first estimate replaces."""
        rank = min(self.rank, sum(value.numel() for value in weights.values()))
        factors = {name: value.new_zeros(rank, *value.shape) for name, value in weights.items()}
        signs = next(iter(weights.values())).new_zeros(rank)
        return {"factors": factors, "signs": {"signs": signs}, "age": {"steps": torch.tensor(0)}}

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Combine both terms, with a new sketch when the old one has served its time."""
        direct, b = point.outer()
        products, age = self.products_at(point), int(state["age"]["steps"])
        if age % self.every == 0:
            state = self._sketch(products, b, state, point.generator)
        gradient = added(direct, products.mixed(self._solve(b, state)), -1.0)
        return gradient, state | {"age": {"steps": torch.tensor(age + 1)}}

    def _sketch(
        self, products: Products, like: Weights, state: HypergradientState, draws: torch.Generator
    ) -> HypergradientState:
        """Return factors U and signs s with C·(H_KK + CᵀC/δ)⁻¹·Cᵀ = U·diag(s)·Uᵀ."""
        flat, rank = flattened(like), len(state["signs"]["signs"])
        chosen = torch.randperm(len(flat), generator=draws)[:rank].to(flat.device)
        columns = torch.stack([_column(products, like, index) for index in chosen])
        values, basis = torch.linalg.eigh(_symmetric(columns[:, chosen] + columns @ columns.T / self.damping))
        sizes = values.abs()
        kept = sizes > rank * torch.finfo(flat.dtype).eps * sizes.max()
        factors = (basis.T.to(flat) @ columns) * torch.where(kept, sizes.rsqrt(), 0).to(flat)[:, None]
        pieces = torch.split(factors, [value.numel() for value in like.values()], dim=1)
        named = zip(pieces, like.items(), strict=True)
        found = {name: piece.reshape(rank, *value.shape) for piece, (name, value) in named}
        return state | {"factors": found, "signs": {"signs": (values.sign() * kept).to(flat)}}

    def _solve(self, b: Weights, state: HypergradientState) -> Weights:
        factors = torch.cat([value.flatten(1) for value in state["factors"].values()], dim=1)
        inside = factors.T @ (state["signs"]["signs"] * (factors @ flattened(b)))
        return added(scaled(b, 1 / self.damping), unflattened(inside, b), -(self.damping**-2))


def _column(products: Products, like: Weights, index: Tensor) -> Tensor:
    """Return a column of H."""
    unit = torch.zeros_like(flattened(like))
    unit[index] = 1
    return flattened(products.hessian(unflattened(unit, like)))


def _symmetric(matrix: Tensor) -> Tensor:
    """Return the symmetric part in double precision, which not every device has: on the CPU."""
    matrix = matrix.cpu().double()
    return (matrix + matrix.T) / 2
