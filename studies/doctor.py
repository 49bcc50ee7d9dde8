"""The doctor's warnings, held against the stored runs of the main study: ``doctor_page`` is docs/results/doctor.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from archgrad.studies.statistics import summarize

__all__ = ["Warned", "doctor_page"]

Record = dict[str, Any]
ACCURACY, WARNING = "oracle_cifar10_test_200ep", "collapsing"
PAGE = """\
# Is the doctor right?

`python studies/publish.py` writes this page from the {runs} runs of [the main study](main.md) in which the doctor
spoke, as it stood at the commit of that study. Its thresholds come from other data and other seeds
([deciding.md](../deciding.md#what-a-search-says-at-its-end)). A run **has collapsed** if its last cell is worse than
half of the 4,096 cells without `none`.

| the doctor says "collapsing" | runs | of these collapsed (precision) | of all {collapsed} collapsed (recall) |
|---|---|---|---|
{rows}

- **Lead.** In the collapsed runs that were warned of, the first warning comes {lead:.0f} epochs before the end of 40
  (median), and {delay:.0f} epochs after four of the six edges have become skip connections for the first time.
- **False alarms.** {recovered} of the warned runs ended at a cell that is better than half of the space:
  {recovered_names}.
- **Missed.** {missed}.
- **Stopping.** With the cell of the epoch before the first warning, the {warned} warned runs would have ended at
  {stopped:.2f} instead of {ended:.2f} %: a change of {change}. That is nearly what `--on-collapse stop`
  does, which takes the last usable epoch.
- **Switching.** {switching}
"""


@dataclass(frozen=True)
class Warned:
    """What a run came to: the epoch of the first warning, whether the last verdict was one, and how it ended."""

    name: str
    first: int | None
    at_end: bool
    collapsed: bool
    lead: int
    delay: int | None
    before: float
    end: float

    @classmethod
    def of(cls, name: str, records: list[Record], collapsed: bool) -> Warned:
        """Read the records of a run."""
        first = next((one["epoch"] for one in records if one["diagnosis"] == WARNING), None)
        skipping = next((one["epoch"] for one in records if one.get("skips", 0) >= 4), None)
        before = [one for one in records if first is not None and one["epoch"] < first]
        end = records[-1]
        return cls(
            name, first, end["diagnosis"] == WARNING, collapsed, end["epoch"] - (first or 0),
            None if first is None or skipping is None else first - skipping,
            float((before[-1] if before else end)[ACCURACY]), float(end[ACCURACY]),
        )  # fmt: skip


def _row(text: str, said: list[Warned], collapsed: int) -> str:
    right = sum(one.collapsed for one in said)
    return f"| {text} | {len(said)} | {right} ({right / len(said):.2f}) | {right} ({right / collapsed:.2f}) |"


def doctor_page(
    found: Mapping[str, Mapping[int, list[Record]]],
    worse: Callable[[float], float],
    switched: Mapping[int, list[Record]],
) -> str:
    """Return the page; ``worse`` is the share of cells, in per cent, that have a lower accuracy.

    ``switched`` are runs of DARTS with ``--on-collapse switch``, by seed.
    """
    runs = [
        Warned.of(f"`{variant}` seed {seed}", records, worse(records[-1][ACCURACY]) < 50)
        for variant, seeds in found.items()
        for seed, records in sorted(seeds.items())
        if "diagnosis" in records[-1]
    ]
    collapsed, warned = [one for one in runs if one.collapsed], [one for one in runs if one.first is not None]
    caught = [one for one in warned if one.collapsed]
    recovered = [one.name for one in warned if not one.collapsed]
    missed = [one.name for one in collapsed if not one.at_end]
    changes = summarize([one.before - one.end for one in warned])
    low, high = changes.interval or (changes.mean, changes.mean)
    return PAGE.format(
        runs=len(runs),
        collapsed=len(collapsed),
        rows="\n".join(
            [
                _row("at the end", [one for one in runs if one.at_end], len(collapsed)),
                _row("in any epoch", warned, len(collapsed)),
            ]
        ),
        lead=median(one.lead for one in caught),
        delay=median(one.delay for one in caught if one.delay is not None),
        recovered=len(recovered),
        recovered_names=", ".join(recovered),
        missed=f"Collapsed, but not called so at the end: {', '.join(missed)}" if missed else "No collapsed run",
        warned=len(warned),
        stopped=mean(one.before for one in warned),
        ended=mean(one.end for one in warned),
        change=f"{changes.mean:+.2f} points (95 % interval {low:+.2f} to {high:+.2f})",
        switching=_switching(found["darts"], switched),
    )


def _switching(before: Mapping[int, list[Record]], switched: Mapping[int, list[Record]]) -> str:
    """Say what `--on-collapse switch` changes for DARTS, seed by seed."""
    seeds = sorted(set(before) & set(switched))
    if not seeds:
        return "`--on-collapse switch` was not run."
    ends = [(before[seed][-1], switched[seed][-1]) for seed in seeds]
    count = sum(any("switched_from" in one for one in switched[seed]) for seed in seeds)
    own, other = (mean(float(pair[at][ACCURACY]) for pair in ends) for at in (1, 0))
    changes = summarize([float(after[ACCURACY]) - float(first[ACCURACY]) for first, after in ends])
    low, high = changes.interval or (changes.mean, changes.mean)
    fewer = mean(float(first["skips"]) - float(after["skips"]) for first, after in ends)
    word = "it helps" if low > 0 else "it does harm" if high < 0 else "that it helps is not shown"
    return (
        f"Of {len(seeds)} runs of `darts --on-collapse switch` (`studies/switch.toml`) {count} went back and continued "
        f"with layer\n  alignment. All {len(seeds)} end at {own:.2f} %, the same seeds without it at {other:.2f} %: "
        f"{changes.mean:+.2f} points (95 % interval\n  {low:+.2f} to {high:+.2f}), {fewer:.1f} skip connections fewer; "
        f"{word}."
    )
