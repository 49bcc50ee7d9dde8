"""The schedule of a search: when α and the weights move, and on which data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from archgrad.errors import UserError
from archgrad.parts.fields import Range, check_fields
from archgrad.system.random_streams import seed_of

__all__ = ["Level", "Moves", "Schedule", "Updates", "ramp"]

Level = Literal["bilevel", "single"]
"""``bilevel``: α follows the loss on its own images. ``single``: weights and α follow the loss on all images (ERM)."""

Updates = Literal["alternate", "simultaneous", "random"]
"""α moves before the weights, together with them, or in their place."""


def ramp(start: float, end: float, progress: float) -> float:
    """Interpolate linearly from ``start`` to ``end`` as ``progress`` runs from 0 to 1.

    >>> ramp(1.0, 0.0, 0.25)
    0.75
    """
    return (1 - progress) * start + progress * end


class Moves(NamedTuple):
    """What one step of a search moves."""

    weights: bool
    architecture: bool

    @property
    def together(self) -> bool:
        """Whether both move, so that one backward pass may serve them."""
        return self.weights and self.architecture


@dataclass(frozen=True)
class Schedule:
    """What moves at each step of a search.

    ``level`` says whether α has its own part of the data (``bilevel``) or shares all of it with the weights
    (``single``, GAEA Eq. 3). A single-level search chooses its ``updates``:

    - ``alternate``: α on its own batch, then the weights;
    - ``simultaneous``: both from one backward pass on one batch, so the supernet runs once and not twice;
    - ``random``: at each step one of the two, with equal probability (GAEA, Algorithm 1).

    α stays fixed for ``warmup_epochs`` epochs, or for ``warmup_share`` of all epochs, rounded down, if these are more.
    Then it moves once for every ``inner_steps`` = T weight steps, each on a fresh batch (iDARTS, Algorithm 1). An epoch
    has as many architecture steps as with T = 1, and T times as many weight steps. α moves just before the last of each
    T weight steps. With ``anneal`` its learning rate falls by a cosine from twice its value to 0, so that their sum
    stays, up to one step.

    >>> [index for index in range(9) if Schedule(inner_steps=4).moves(index).architecture]
    [3, 7]
    """

    inner_steps: Annotated[int, Range(1, 10_000)] = 1
    warmup_epochs: Annotated[int, Range(0, 1_000_000)] = 0
    warmup_share: Annotated[float, Range(0, 0.9)] = 0.0
    anneal: bool = False
    level: Level = "bilevel"
    updates: Updates = "alternate"

    def __post_init__(self) -> None:
        check_fields(self, "schedule.{}")
        if self.updates != "alternate" and self.level != "single":
            raise UserError(
                f"schedule.updates is {self.updates!r}, but weights and architecture follow different losses at level "
                f"{self.level!r}; set schedule.level=single, or schedule.updates=alternate."
            )
        if self.updates != "alternate" and self.inner_steps != 1:
            raise UserError(
                f"schedule.inner_steps is {self.inner_steps}, but schedule.updates is {self.updates!r}; "
                f"set inner_steps to 1, or schedule.updates=alternate."
            )

    def within(self, epochs: int) -> Schedule:
        """Return the schedule of a search of so many epochs, whose warm-up is a number of epochs.

        >>> Schedule(warmup_share=0.3).within(20).warmup_epochs, Schedule(warmup_share=0.3).within(3).warmup_epochs
        (6, 0)
        """
        return replace(self, warmup_epochs=max(self.warmup_epochs, int(self.warmup_share * epochs)))

    def check_epochs(self, epochs: int) -> None:
        """Reject a search that would end before its architecture has moved."""
        if epochs <= self.warmup_epochs:
            raise UserError(
                f"the architecture does not move in the first {self.warmup_epochs} epochs (schedule.warmup_epochs), "
                f"but the search has only {epochs}; give more epochs, or set schedule.warmup_epochs lower."
            )

    def moves(self, index: int, steps: int = 1, seed: int = 0) -> Moves:
        """Return what moves at step ``index`` of a search with ``steps`` steps per epoch and this seed."""
        index -= self.warmup_epochs * steps
        if index < 0:
            return Moves(weights=True, architecture=False)
        if self.updates == "random":
            architecture = seed_of(seed, "block", index) % 2 == 0
            return Moves(weights=not architecture, architecture=architecture)
        return Moves(weights=True, architecture=(index + 1) % self.inner_steps == 0)
