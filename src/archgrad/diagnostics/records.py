"""Reads the records of a search; a number may be missing, because nothing measured it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import mean
from typing import Any

from archgrad.spaces import SKIP, Decision, Genotype

__all__ = [
    "Record",
    "after_first_move",
    "changed_share",
    "decided_share",
    "mean_in",
    "number_in",
    "of_last_stage",
    "share_of",
    "skip_share",
]  # fmt: skip

Record = Mapping[str, Any]
"""One line of ``metrics.jsonl``."""


def of_last_stage(records: Sequence[Any]) -> list[Any]:
    """Return the records of the last stage; a search in stages starts anew in each.

    >>> of_last_stage([{"stage": 1, "epoch": 1}, {"stage": 2, "epoch": 2}])
    [{'stage': 2, 'epoch': 2}]
    """
    return [record for record in records if record.get("stage") == records[-1].get("stage")]


def after_first_move(records: Sequence[Record]) -> Sequence[Record]:
    """Return the records from the first epoch that moved the architecture, without those that have no genotype."""
    records = [record for record in records if record.get("genotype", "") is not None]
    for place, record in enumerate(records):
        if number_in(record, "movement") != 0:
            return records[place:]
    return ()


def decided_share(record: Record) -> float | None:
    """Return how far entropy has fallen below its maximum, as a share of that; None if it was not measured.

    >>> decided_share({"entropy": 0.7, "entropy_max": 1.4})
    0.5
    """
    entropy, most = number_in(record, "entropy"), number_in(record, "entropy_max")
    return max(1 - entropy / most, 0.0) if entropy is not None and most else None


def skip_share(record: Record) -> float:
    """Return the share of skip connections, from the record or else from its genotype.

    >>> skip_share({"epoch": 1, "genotype": "|skip_connect~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|"})
    0.3333333333333333
    """
    share = number_in(record, "skip_share")
    return share_of(record, SKIP) if share is None else share


def share_of(record: Record, choice: str) -> float:
    """Return the share of a choice among the genotype's decisions, 0 if the record has no genotype."""
    return _share_in(record["genotype"], choice) if record.get("genotype") is not None else 0.0


def changed_share(before: Record, after: Record) -> float | None:
    """Return the share of decisions that the genotype before did not have, None if a genotype is missing.

    >>> changed_share({"genotype": "|none~0|+|none~0|none~1|"}, {"genotype": "|none~0|+|skip~0|none~1|"}) < 0.34
    True
    """
    if before.get("genotype") is None or after.get("genotype") is None:
        return None
    one, other = _decisions(before["genotype"]), _decisions(after["genotype"])
    return 1 - len(one & other) / max(len(other), 1)


@lru_cache(maxsize=1024)
def _decisions(genotype: str) -> frozenset[tuple[str, Decision]]:
    found = Genotype.parse(genotype)
    return frozenset((name, decision) for name, cell in found.blocks for decision in cell)


@lru_cache(maxsize=1024)
def _share_in(genotype: str, choice: str) -> float:
    found = Genotype.parse(genotype)
    return found.count(choice) / max(len(found.decisions), 1)


def number_in(record: Record, name: str) -> float | None:
    """Return a finite number of a record, None if it has none of this name."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def mean_in(records: Sequence[Record], name: str) -> float | None:
    """Return the mean of a number over records, None if none of them has it."""
    values = [value for record in records if (value := number_in(record, name)) is not None]
    return mean(values) if values else None
