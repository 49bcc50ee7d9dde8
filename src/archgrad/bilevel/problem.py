"""A bilevel problem: two losses of weights, hyperparameters and a batch, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Mixture, Weights
from archgrad.parts.fields import check_fields

__all__ = ["BilevelProblem", "Evaluation", "Loss"]

Loss = Callable[[Weights, Alpha, Any], Tensor]
"""A pure scalar function of (w, α, batch)."""


class Evaluation(NamedTuple):
    """A loss to differentiate, the mixture between α and the loss, and what was ``measured`` on the way."""

    loss: Tensor
    mixture: Mixture
    measured: Any


@dataclass(frozen=True)
class BilevelProblem:
    """min over α of outer(w*(α), α), where w*(α) minimizes inner(w, α).

    Any two losses will do; they need not be about architectures. ``evaluate`` computes the outer loss and also returns
    what it met on the way; None if there is nothing more to know.

    >>> import torch
    >>> problem = BilevelProblem(inner=lambda w, a, x: ((w["w"] * x - a["a"]) ** 2).sum(),
    ...                          outer=lambda w, a, x: ((w["w"] * x - a["a"]) ** 2).sum())
    >>> problem.outer({"w": torch.tensor(1.0)}, {"a": torch.tensor(3.0)}, torch.tensor(2.0)).item()
    1.0
    """

    inner: Loss
    outer: Loss
    evaluate: Callable[[Weights, Alpha, Any], Evaluation] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
