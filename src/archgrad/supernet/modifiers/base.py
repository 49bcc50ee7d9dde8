"""The family of modifiers: what a search changes in the supernet's forward pass, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

__all__ = ["Modifier", "Purpose", "SearchTime", "merge_arguments"]

Purpose = Literal["training", "architecture", "evaluation"]
"""The purpose of a forward pass: the weights' loss, the architecture's loss, or held-out images."""


@dataclass(frozen=True)
class SearchTime:
    """The position of a search: ``epoch`` of ``epochs``, counted from 0, and ``progress`` in steps, from 0 to 1.

    α does not move in the first ``warmup_epochs``.
    """

    epoch: int
    epochs: int
    warmup_epochs: int
    progress: float


class Modifier:
    """A change of the supernet. Override either method; a modifier that only needs ``builds`` overrides neither.

    ``builds`` are the fields of :class:`~archgrad.supernet.SupernetOptions` that the supernet must be built with.
    """

    builds: ClassVar[Mapping[str, Any]] = {}

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return keyword arguments for the supernet's forward pass; values of 0 or False are left out."""
        return {}

    def loss_term(self, further: Sequence[Tensor], loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Return a term to add to the training loss, given the supernet's outputs after the first, and their loss."""
        return None


def merge_arguments(modifiers: Sequence[Modifier], purpose: Purpose, time: SearchTime) -> dict[str, Any]:
    """Merge the arguments of all modifiers; add the values of an argument that several give.

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
