"""One description of a selection: its training, its candidates, and the protocol that ranks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archgrad.data import Data
from archgrad.errors import UserError, look_up
from archgrad.parts.fields import Count, check_value
from archgrad.spaces import Genotype
from archgrad.workflows.folders import read_json, to_json
from archgrad.workflows.halving import round_sizes
from archgrad.workflows.training import Training

__all__ = ["HALVING", "PROTOCOLS", "SelectionPlan", "SelectionProtocol"]

CANDIDATES = "candidates.json"
_CONTENT = ("genotypes", "seeds", "search_seconds", "protocol", "searches")


@dataclass(frozen=True)
class SelectionProtocol:
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
PROTOCOLS: Mapping[str, SelectionProtocol] = {
    HALVING: SelectionProtocol(
        "brief trainings that drop the worse half, and the best one with fresh seeds", halves=True
    ),
    "gaea": SelectionProtocol(
        "each of 5 searches trained once in full, and the best one with 10 fresh seeds on all images (GAEA, C.1)",
        "held-out images chose the best one; GAEA does not say which images did",
        searches=5, seeds=10, on_all=True,
    ),
    "amended": SelectionProtocol(
        "each of 5 searches trained 3 times in full (Amended-DARTS, A.4)",
        "held-out images, which trained nothing, chose one; Amended-DARTS chooses none, and reports the lowest and the "
        "highest test error",
        searches=5, seeds=3, fresh=False,
    ),
}  # fmt: skip
"""The protocols by name."""


@dataclass(frozen=True)
class SelectionPlan:
    """What to select from: trainings are as ``training`` says, for each of the ``genotypes``.

    The last trainings have the ``seeds`` after the first one, which all rounds share. ``search_seconds`` is what the
    searches took, by their run directories, where these are known. Several ``searches`` may have found one genotype.
    """

    training: Training
    genotypes: tuple[Genotype, ...]
    seeds: int = 3
    search_seconds: Mapping[str, float] = field(default_factory=dict)
    protocol: str = HALVING
    searches: int | None = None

    @property
    def rules(self) -> SelectionProtocol:
        """The protocol."""
        return look_up("protocol", self.protocol, PROTOCOLS)

    @property
    def departures(self) -> tuple[str, ...]:
        """What differs from the published protocol."""
        return self.rules.departures(self.searches or len(self.genotypes), self.seeds, self.training.preset)

    @property
    def names(self) -> dict[str, Genotype]:
        """The genotypes by their number, which names their folders."""
        return {str(number): one for number, one in enumerate(self.genotypes, 1)}

    @property
    def rounds(self) -> int:
        """The number of rounds; one candidate needs none before its training with fresh seeds."""
        if self.rules.halves:
            return len(round_sizes(len(self.genotypes)))
        return int(len(self.genotypes) > 1 or not self.rules.fresh)

    def epochs_of(self, number: int, final: int) -> int:
        """Return the epochs in round ``number``, counted from 1, if the last training has ``final`` epochs."""
        return max(final >> (self.rounds - number + 1), 1) if self.rules.halves else final

    def check(self, tests: Data | None) -> None:
        """Reject a selection without images that rank, or a published one without images that test."""
        if not self.training.config.held_out:
            raise UserError("held_out is 0, but a selection ranks by held-out images; give a share such as 0.1.")
        if self.rules.searches and tests is None:
            raise UserError(
                f"the protocol {self.protocol!r} measures its last trainings on test images, but the data has none; "
                f"give them (--test)."
            )

    def write(self, folder: Path, data: Data) -> None:
        """Begin the run directory of a selection."""
        content = {name: getattr(self, name) for name in _CONTENT} | {"genotypes": list(map(str, self.genotypes))}
        self.training.write(folder, data, "selection", {CANDIDATES: to_json(content)})

    @classmethod
    def read(cls, folder: Path, given: Mapping[str, Any]) -> SelectionPlan:
        """Read the plan of a begun selection; ``given`` are the arguments of ``Training.read``."""
        path = folder / CANDIDATES
        content = read_json(path, "a selection", _CONTENT)
        try:
            look_up("protocol", content["protocol"], PROTOCOLS)
            check_value("seeds", content["seeds"], Count)
            check_value("searches", content["searches"], Count | None)
            genotypes = tuple(map(Genotype.parse, content["genotypes"]))
            seconds = {str(run): float(one) for run, one in content["search_seconds"].items()}
        except (UserError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{path} has a wrong list of candidates ({error}); start a new selection.") from error
        if not genotypes:
            raise UserError(f"{path} has no genotypes; start a new selection.")
        return cls(
            Training.read(folder, given), genotypes, content["seeds"], seconds, content["protocol"],
            content["searches"],
        )  # fmt: skip
