"""The gradient of every cell's own mixture, by any hypergradient."""

from __future__ import annotations

from archgrad.autodiff.tensors import MixtureGradients
from archgrad.hypergradients import EvaluationPoint, Hypergradient
from archgrad.parts.fields import checked

__all__ = ["layer_gradients"]


@checked
def layer_gradients(point: EvaluationPoint, hypergradient: Hypergradient) -> MixtureGradients:
    """Return dL2/dp of every cell's mixture, ``{block: [cells, rows, choices]}`` (Λ-DARTS, Eq. 20).

    The α of the ``point`` is the mixture, with a copy p_ℓ for each cell: its losses are functions of (w, p, batch).
    Second-order DARTS gives ∂L2/∂p_ℓ(w') − γ·∂²L1/∂p_ℓ∂w·∂L2/∂w(w'), and every other hypergradient its own estimate;
    one of order 1 gives ∂L2/∂p_ℓ. The relaxation's pullback of their sum, Σ_ℓ (∂p_ℓ/∂α)ᵀ·dL2/dp_ℓ, is dL2/dα.

    >>> import torch
    >>> from archgrad.bilevel.problem import BilevelProblem
    >>> from archgrad.hypergradients import Unrolled, evaluate_at
    >>> loss = lambda w, p, x: (w["w"] * p["cell"]).sum() ** 2 / 2
    >>> w, p = {"w": torch.tensor([1.0, 2.0])}, {"cell": torch.tensor([1.0, 1.0])}
    >>> with evaluate_at(BilevelProblem(loss, loss), w, p, None, None) as point:
    ...     layer_gradients(point, Unrolled(lr=0.1))
    {'cell': tensor([0.4800, 2.4000])}
    """
    return hypergradient.estimate_once(point) if hypergradient.order > 1 else point.direct()
