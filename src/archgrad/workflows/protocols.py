"""How a selection trains its candidates: by halving, or as the papers did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["HALVING", "PROTOCOLS", "Protocol"]


@dataclass(frozen=True)
class Protocol:
    """Candidates train in rounds, and held-out images rank them.

    With ``halves`` the better half goes on to the next round, whose trainings are twice as long (successive halving,
    Jamieson & Talwalkar, 2016). Otherwise one round trains all of them in full. Then the best one trains with
    ``seeds`` ``fresh`` seeds, with ``on_all`` on all images, and is tested. Without ``fresh`` there is no further
    training: the round has ``seeds`` trainings of each candidate, and each is tested.

    ``searches`` is the published number of candidates, None where nothing is published. ``note`` says what the paper
    did otherwise, or does not say.
    """

    about: str
    note: str = ""
    searches: int | None = None
    seeds: int = 3
    halves: bool = False
    fresh: bool = True
    on_all: bool = False

    def departures(self, searches: int, seeds: int, preset: str) -> tuple[str, ...]:
        """Return what differs from the published numbers and trainings.

        >>> PROTOCOLS["gaea"].departures(2, 10, "quick")
        ('searches: 2 instead of 5', 'preset: quick instead of one of a paper')
        """
        if self.searches is None:
            return ()
        found = (("searches", searches, self.searches), ("seeds", seeds, self.seeds))
        counts = [f"{what}: {own} instead of {published}" for what, own, published in found if own != published]
        return (*counts, *(["preset: quick instead of one of a paper"] if preset == "quick" else []))


HALVING = "halving"
PROTOCOLS: Mapping[str, Protocol] = {
    HALVING: Protocol("brief trainings that drop the worse half, and the best one with fresh seeds", halves=True),
    "gaea": Protocol(
        "each of 5 searches trained once in full, and the best one with 10 fresh seeds on all images (GAEA, C.1)",
        "held-out images chose the best one; GAEA does not say which images did",
        searches=5, seeds=10, on_all=True,
    ),
    "amended": Protocol(
        "each of 5 searches trained 3 times in full (Amended-DARTS, A.4)",
        "held-out images, which trained nothing, chose one; Amended-DARTS chooses none, and reports the lowest and the "
        "highest test error",
        searches=5, seeds=3, fresh=False,
    ),
}  # fmt: skip
"""The protocols by name."""
