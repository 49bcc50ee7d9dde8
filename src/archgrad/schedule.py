"""When the architecture moves."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.errors import check_whole

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """α moves once for every ``inner_steps`` steps of the weights, each on a fresh batch (T in iDARTS, Algorithm 1).

    It moves between two weight steps, never after the last one of a search.

    >>> [index for index in range(9) if Schedule(inner_steps=4).moves_architecture(index)]
    [4, 8]
    """

    inner_steps: int = 1

    def __post_init__(self) -> None:
        check_whole("schedule.inner_steps", self.inner_steps)

    def moves_architecture(self, index: int) -> bool:
        """Say whether α moves before the weight step ``index``: with T > 1, not before T of them are done."""
        return index % self.inner_steps == 0 and (index > 0 or self.inner_steps == 1)
