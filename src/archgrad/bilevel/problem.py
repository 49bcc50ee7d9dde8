"""A bilevel problem: two losses of weights, hyperparameters and a batch, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.parts.fields import check_fields

__all__ = ["BilevelProblem", "Loss"]

Loss = Callable[[Weights, Alpha, Any], Tensor]
"""A pure scalar function of (w, α, batch)."""


@dataclass(frozen=True)
class BilevelProblem:
    """min over α of outer(w*(α), α), where w*(α) minimizes inner(w, α).

    Any two losses will do; they need not be about architectures.

    >>> import torch
    >>> problem = BilevelProblem(inner=lambda w, a, x: ((w["w"] * x - a["a"]) ** 2).sum(),
    ...                          outer=lambda w, a, x: ((w["w"] * x - a["a"]) ** 2).sum())
    >>> problem.outer({"w": torch.tensor(1.0)}, {"a": torch.tensor(3.0)}, torch.tensor(2.0)).item()
    1.0
    """

    inner: Loss
    outer: Loss

    def __post_init__(self) -> None:
        check_fields(self)
