"""The family of modifiers: what a search changes in the supernet's forward pass, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

__all__ = ["Modifier", "Purpose", "SearchTime", "merge_arguments"]

Purpose = Literal["training", "architecture", "evaluation"]
"""What a forward pass is for: the weights' loss, the architecture's loss, or held-out images."""


@dataclass(frozen=True)
class SearchTime:
    """Where a search is: in ``epoch`` of ``epochs``, counted from 0, and ``progress`` from 0 to 1 counted in steps.

    The architecture does not move in the first ``warmup_epochs``.
    """

    epoch: int
    epochs: int
    warmup_epochs: int
    progress: float


class Modifier:
    """Override what it changes; a modifier that is only built into the supernet overrides neither.

    ``builds`` are the fields of :class:`~archgrad.supernet.SupernetOptions` that the supernet must be built with.
    """

    builds: ClassVar[Mapping[str, Any]] = {}

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return the keyword arguments of the supernet's forward pass; what is 0 or False is left out."""
        return {}

    def loss_term(self, further: Sequence[Tensor], labels: Tensor) -> Tensor | None:
        """Return what to add to the training loss, given the logits that the supernet returns besides the first."""
        return None


def merge_arguments(modifiers: Sequence[Modifier], purpose: Purpose, time: SearchTime) -> dict[str, Any]:
    """Return the arguments of all modifiers; what several give is added.

    >>> class Half(Modifier):
    ...     def arguments(self, purpose, time):
    ...         return {"skip": 0.5, "drop_path": 0.0}
    >>> merge_arguments([Half(), Half()], "training", SearchTime(0, 1, 0, 0.0))
    {'skip': 1.0}
    """
    merged: dict[str, Any] = {}
    for modifier in modifiers:
        for name, value in modifier.arguments(purpose, time).items():
            merged[name] = merged[name] + value if name in merged else value
    return {name: value for name, value in merged.items() if value}
