"""The diagnosis of a search by its records: whether it decides, learns, memorises or collapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from archgrad.diagnostics.collapse_rules import CollapseRules, Verdict
from archgrad.diagnostics.records import Record, after_first_move
from archgrad.diagnostics.thresholds import Thresholds
from archgrad.parts.fields import Count, check_value, checked

__all__ = [
    "ALARMING",
    "CURES",
    "Diagnosis",
    "diagnose",
    "first_moved_epoch",
    "last_usable_epoch",
]

ALARMING: tuple[Verdict, ...] = ("collapsing",)
"""The verdicts that cause a warning while a search runs."""

CURES = ("λ-DARTS (--regularizer +layer-alignment)", "GAEA (--method gaea)")
"""The usual cures of a collapse into skip connections."""


@dataclass(frozen=True)
class Diagnosis:
    """A verdict on a search, with sentences and the numbers behind them.

    ``since`` is the first epoch of the present alarm, None if there is no alarm. ``usable`` tells whether the search
    could return the present architecture: skip connections or `none` do not dominate it. ``evidence`` has the numbers
    behind the sentences, by name.
    """

    verdict: Verdict
    since: int | None
    sentences: tuple[str, ...]
    advice: str
    usable: bool = False
    evidence: dict[str, float] = field(default_factory=dict, hash=False)

    @property
    def alarming(self) -> bool:
        """Whether a search should be warned, stopped or changed."""
        return self.verdict in ALARMING

    def __str__(self) -> str:
        since = "" if self.since is None else f" since epoch {self.since}"
        lines = [f"diagnosis: {self.verdict}{since}", *(f"  {sentence}" for sentence in self.sentences)]
        return "\n".join([*lines, *([f"  {self.advice}"] if self.advice else [])])


@checked
def diagnose(
    records: Sequence[Record],
    epochs: int,
    thresholds: Thresholds | None = None,
    cures: Sequence[str] = CURES,
) -> Diagnosis:
    """Diagnose a search of so many ``epochs`` by its records so far, one for each epoch.

    Numbers that a record lacks are skipped: alignment where no two cells share a block, the eigenvalue in most epochs.
    It never reads a benchmark's table. The advice names the ``cures``.

    >>> records = [{"epoch": n, "skip_share": n / 6, "entropy": 1.4 - n / 10, "entropy_max": 1.4} for n in range(1, 5)]
    >>> print(diagnose(records, 20))
    diagnosis: collapsing since epoch 4
      skip connections are 50 % of the architecture, up from 17 % in epoch 1
      decided 21 %: entropy 1.100 of 1.400
      go back to an earlier epoch, or search again: λ-DARTS (--regularizer +layer-alignment) or GAEA (--method gaea) \
usually cures it
    """
    check_value("epochs", epochs, Count)
    limits = thresholds or Thresholds()
    found = CollapseRules.of(records, epochs, limits)
    since = None
    if found.verdict in ALARMING:
        since = records[-1]["epoch"]
        for end in range(len(records) - 1, 0, -1):
            if CollapseRules.of(records[:end], epochs, limits).verdict not in ALARMING:
                break
            since = records[end - 1]["epoch"]
    return Diagnosis(found.verdict, since, found.sentences, found.advice(cures), found.usable, found.evidence)


def first_moved_epoch(records: Sequence[Record]) -> int:
    """Return the first epoch that moved the architecture, 0 if none did, as in a warm-up.

    >>> first_moved_epoch([{"epoch": 1, "movement": 0.0}, {"epoch": 2, "movement": 0.4}])
    2
    """
    left = after_first_move(records)
    return int(left[0]["epoch"]) if left else 0


def last_usable_epoch(records: Sequence[Record], epochs: int, thresholds: Thresholds | None = None) -> int:
    """Return the last epoch whose architecture is usable, 0 if there is none.

    >>> last_usable_epoch([{"epoch": 1, "skip_share": 0.2}, {"epoch": 2, "skip_share": 0.9}], 9)
    1
    """
    for end in range(len(records), 0, -1):
        if (
            records[end - 1].get("genotype", "") is not None
            and CollapseRules.of(records[:end], epochs, thresholds or Thresholds()).usable
        ):
            epoch: int = records[end - 1]["epoch"]
            return epoch
    return 0
