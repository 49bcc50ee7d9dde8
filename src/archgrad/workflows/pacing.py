"""How a fit shares its time: the clock of all its parts, and the length of a training that takes so many seconds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated

from archgrad.parts.fields import Count, NonNegative, Range, check_fields
from archgrad.workflows.halving import round_sizes
from archgrad.workflows.length import Length, length_within

__all__ = [
    "FINAL",
    "SEARCH",
    "Clock",
    "Schedule",
    "balanced_size",
    "mirror_length",
    "schedule_rounds",
]

SEARCH, FINAL = 0.25, 0.5
"""The shares of the time for the search and for the last training; the selection has what is left."""
SELECTION, LEAST_FINAL = 0.15, 0.45
"""If the search has taken too long, the selection keeps the first share, and the last training the second."""
MARGIN = 0.97
"""What is left for the parts themselves; the rest tests the model and writes its report."""
_FIRST_ROUND = 1 / 36
"""A training of the first round takes at least this share of the last training: shorter ones rank by chance."""
_ROUND_EPOCHS, _FEWEST_SEEN, _ROUND_IMAGES = 2, 2_000, 10_000
"""A training of fewer epochs, or of fewer images seen (the last number where there are many), ranks by chance too."""
_FINAL_EPOCHS, _FINAL_IMAGES = 30, 800_000
"""If the last training has fewer after a search and a selection, more training is worth more than a choice."""
MIRROR, _MIRROR_SEEN = 0.1, (1_500, 40_000)
"""The largest share of the time for the test of mirrored images, and how many images it sees: fewer tell nothing."""
_COUNTS = ((4, 2), (4, 1), (3, 1), (2, 1))
"""Numbers of networks in the first round, and of other settings in the last, from many to few."""
_IMAGES_PER_WORK = 0.01
"""Images to see for each multiply-add of a network; networks and their trainings should grow together (docs/fit.md)."""
_ENOUGH_EPOCHS = 60
"""More epochs than this help less than a larger network."""


class Clock:
    """The time of a fit; ``spent`` is what an earlier process has taken."""

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self.seconds, self._began = seconds, time.monotonic() - spent

    @property
    def spent(self) -> float:
        """The seconds since the fit began."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """The seconds that are left for all parts; a small share of all when the time is over."""
        return max(MARGIN * self.seconds - self.spent, 0.02 * self.seconds)

    @property
    def final(self) -> float:
        """The seconds to keep for the last training, before the selection."""
        return max(min(FINAL * self.seconds, self.left - SELECTION * self.seconds), LEAST_FINAL * self.seconds)

    def until(self, final: float) -> float:
        """Return the seconds that are left for the selection, if so many are kept for the last training."""
        return max(self.left - final, 0.02 * self.seconds)

    def left_in_all(self, part: float = 0.0) -> str:
        """Say how much time is left; at least that of the ``part`` that runs, if it is late."""
        left = int(max(self.seconds - self.spent, part))
        return f"{left // 60}:{left % 60:02} left in all"

    def __str__(self) -> str:
        return self.left_in_all()


def balanced_size(work: float, images: int) -> float:
    """Return the multiply-adds of a network that suits so much ``work``, multiply-adds of all images that it sees.

    Both grow with the square root of the work, unless the images are so few that they would repeat too often.

    >>> round(balanced_size(6.4e12, 50_000) / 1e6), round(balanced_size(6.4e12, 1_000) / 1e6)
    (25, 107)
    """
    seen = min(math.sqrt(work * _IMAGES_PER_WORK), _ENOUGH_EPOCHS * images)
    return work / max(seen, 1.0)


def mirror_length(clock: Clock, rate: float, images: int, classes: int) -> Length | None:
    """Return the length of the training that tests mirrored images; None if there is no time for one that tells."""
    fewest, most = _MIRROR_SEEN
    found = length_within(min(MIRROR * clock.left, most / rate), rate, images, classes)
    return found if found.seen >= fewest else None


@dataclass(frozen=True)
class Schedule:
    """The rounds of a selection: ``networks`` are halved to one, then it competes with so many ``variants`` of itself.

    In each round of networks, trainings take twice as long as in the round before; variants as long as the last ones.
    ``final`` seconds are kept for the last training.
    """

    networks: Count
    variants: Annotated[int, Range(0, 100)]
    final: NonNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "{} of a selection")

    def weights(self) -> list[float]:
        """Return the time of each round, in units of one training of the first round."""
        sizes = round_sizes(self.networks)
        rounds = [size * 2.0**number for number, size in enumerate(sizes)]
        trained = self.variants if rounds else self.variants + 1  # without a round of networks, the only one trains too
        return [*rounds, trained * self.longest] if self.variants else rounds

    @property
    def longest(self) -> float:
        """The time of a training in the last round, in units of one of the first round."""
        return 2.0 ** max(len(round_sizes(self.networks)) - 1, 0)

    def seconds(self, number: int, left: float) -> float:
        """Return the seconds of each training in round ``number``, counted from 0, if so many are left for all."""
        own = min(2.0**number, self.longest)
        return left * own / sum(self.weights()[number:])


def schedule_rounds(clock: Clock, rate: float, images: int) -> Schedule:
    """Return the rounds with the most candidates whose trainings are long enough to rank them.

    ``rate`` is how many of the ``images`` a candidate trains in a second. There are no rounds if even two would rank by
    chance, or if the last training would be short: then one good network has all of the time.
    """
    short = Schedule(1, 0, clock.left)
    if clock.final * rate < min(_FINAL_EPOCHS * images, _FINAL_IMAGES):
        return short
    left = min(clock.until(clock.final), (1 - SEARCH - FINAL) * clock.seconds)
    least = min(max(_ROUND_EPOCHS * images, _FEWEST_SEEN), _ROUND_IMAGES)
    for networks, variants in _COUNTS:
        found = Schedule(networks, variants, clock.final)
        seconds = found.seconds(0, left)
        if seconds >= _FIRST_ROUND * clock.final and seconds * rate >= least:
            return found
    return short
