"""Precision, recall and lead time of the doctor's warnings over finished searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from archgrad.diagnostics.diagnosis import ALARMING, diagnose
from archgrad.diagnostics.records import Record, skip_share
from archgrad.diagnostics.thresholds import Thresholds
from archgrad.errors import UserError, check_number

__all__ = ["Outcome", "WarningScore", "precision_recall"]

LEAST_ACCURACY = {"oracle_cifar10_test_200ep": 90.0, "oracle_cifar10_valid_200ep": 86.8}
"""An architecture below this accuracy counts as collapsed, by the measure of the accuracy.

Of the 15,625 cells of NAS-Bench-201, 44 % are below each of them.
"""


@dataclass(frozen=True)
class Outcome:
    """The doctor's warning about one search, and its true outcome.

    ``warned`` is the epoch of the first warning, None if there was none. ``collapsed`` is the truth at the end, and
    ``settled`` the first epoch from which it remained true.
    """

    run: str
    epochs: int
    warned: int | None
    collapsed: bool
    settled: int | None
    skip_share: float
    accuracy: float | None
    measure: str | None = None

    @property
    def lead(self) -> int | None:
        """The number of epochs from the warning to the settled collapse; negative if it came late."""
        return None if self.warned is None or self.settled is None else self.settled - self.warned


@dataclass(frozen=True)
class WarningScore:
    """The outcomes of several searches.

    ``precision`` is the share of warned searches that collapsed, ``recall`` the share of collapsed ones that were
    warned, and ``lead`` the mean lead of the true warnings in epochs; each is None where there are none.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def precision(self) -> float | None:
        """True warnings among all warnings."""
        return _share([one.collapsed for one in self.outcomes if one.warned is not None])

    @property
    def recall(self) -> float | None:
        """Warned searches among all that collapsed."""
        return _share([one.warned is not None for one in self.outcomes if one.collapsed])

    @property
    def lead(self) -> float | None:
        """The mean lead of the true warnings."""
        leads = [one.lead for one in self.outcomes if one.lead is not None]
        return mean(leads) if leads else None


def precision_recall(
    runs: Mapping[str, Sequence[Record]],
    *,
    epochs: Mapping[str, int] | None = None,
    accuracy: Mapping[str, float] | None = None,
    skips: float = 2 / 3,
    thresholds: Thresholds | None = None,
) -> WarningScore:
    """Score the warnings on the records of finished searches, by name.

    ``epochs`` are the planned epochs of a search, by its name; by default as many as it has records. The warnings are
    those in the records: ``diagnosis``, or a switch. If the records lack them, or other ``thresholds`` are given, the
    search is diagnosed again.

    A search has collapsed if the oracle accuracy of its last architecture is below that of its measure in ``accuracy``
    (by default :data:`LEAST_ACCURACY`), or if it has at least the share ``skips`` of skip connections (by default 4 of
    6). Without a known oracle, only the skip connections decide. Warnings never use the oracle.
    """
    limits = LEAST_ACCURACY if accuracy is None else accuracy
    for name, limit in limits.items():
        check_number(f"accuracy of {name}", limit)
    check_number("skips", skips, positive=True)
    for name, records in runs.items():
        if not records:
            raise UserError(f"no epoch of {name} is finished; leave it out, or resume it first.")
    planned = epochs or {}
    return WarningScore(
        tuple(
            _outcome(name, records, _warned(records, planned.get(name, len(records)), thresholds), limits, skips)
            for name, records in runs.items()
        )
    )


def _warned(records: Sequence[Record], epochs: int, thresholds: Thresholds | None) -> int | None:
    """Return the epoch of the first warning; a switch dropped the record of its epoch."""
    for place, record in enumerate(records):
        if "switched_from" in record:
            before: int = records[0]["epoch"] - 1  # epochs of earlier stages, which it does not count
            return before + int(record["switched_from"])
        if "diagnosis" in record and thresholds is None:
            alarming = record["diagnosis"] in (*ALARMING, "collapsed")  # as older runs say it
        else:
            alarming = diagnose(records[: place + 1], epochs, thresholds).alarming
        if alarming:
            return int(record["epoch"])
    return None


def _outcome(
    name: str, records: Sequence[Record], warned: int | None, limits: Mapping[str, float], skips: float
) -> Outcome:
    truth = [_collapsed(record, limits, skips) for record in records]
    after = max((place + 1 for place, true in enumerate(truth) if not true), default=0)
    last = records[-1]
    measure = next((measure for measure in limits if measure in last), None)
    return Outcome(
        run=name,
        epochs=len(records),
        warned=warned,
        collapsed=truth[-1],
        settled=records[after]["epoch"] if truth[-1] else None,
        skip_share=skip_share(last),
        accuracy=None if measure is None else last[measure],
        measure=measure,
    )


def _collapsed(record: Record, limits: Mapping[str, float], skips: float) -> bool:
    low = any(measure in record and record[measure] < limit for measure, limit in limits.items())
    return low or skip_share(record) >= skips - 1e-9


def _share(flags: Sequence[bool]) -> float | None:
    return mean(flags) if flags else None
