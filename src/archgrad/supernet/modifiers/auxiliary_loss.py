"""The loss of an auxiliary head, which sends gradients to the middle of the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from archgrad.supernet.modifiers.base import Modifier, Purpose, SearchTime

__all__ = ["AuxiliaryLoss"]


@dataclass(frozen=True)
class AuxiliaryLoss(Modifier):
    """L1 + ``weight`` · the task's loss of the auxiliary head, as in the evaluation of DARTS (Liu et al., 2019).

    The architecture's loss omits it, because it evaluates the network as it will be used.
    """

    weight: float

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Ask for the logits of both heads in training."""
        return {"auxiliary": purpose == "training" and self.weight > 0}

    def loss_term(self, further: Sequence[Tensor], loss: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the weighted loss of the auxiliary outputs."""
        return self.weight * loss(further[0])
