"""The doctor's warnings, held against the stored runs of the main study: ``doctor_page`` is docs/results/doctor.md.

``python studies/doctor.py`` chooses thresholds by the development runs of the proxy alone, on a grid, and keeps them in
``studies/results/thresholds.json``: what is better there, is it better in the main study too?
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

from shared import CIFAR10, read_runs, worse_share

from archgrad.diagnostics.diagnosis import diagnose
from archgrad.diagnostics.rules import Thresholds
from archgrad.studies.statistics import summarize
from archgrad.system.files import write_text

__all__ = ["Warned", "chosen_thresholds", "doctor_page"]

Record = dict[str, Any]
Runs = Mapping[str, Mapping[int, list[Record]]]
Worse = Callable[[float], float]
CHOSEN = Path(__file__).parent / "results" / "thresholds.json"
GRID = {
    "window": (3, 5, 8),
    "many": (0.45, 0.6, 0.75),
    "most": (0.6, 0.75, 0.9),
    "rise": (0.15, 0.3, 0.5),
    "misaligned": (0.1, 0.05, 0.2),
}
"""Values of the thresholds of a collapse, the default first."""
WARNING = "collapsing"
PAGE = """\
# Is the doctor right?

`python studies/publish.py` writes this page from the {runs} runs of [the main study](main.md) in which the doctor
speaks. Its thresholds come from other data and other seeds
([deciding.md](../deciding.md#what-a-search-says-at-its-end)). A run **has collapsed** if its last cell is worse than
half of the 4,096 cells without `none`.

| the doctor says "collapsing" | runs | of these collapsed (precision) | of all {collapsed} collapsed (recall) |
|---|---|---|---|
{rows}

"Chosen" are the thresholds with the best mean of the two F1 scores, at the end and in any epoch, in the development
runs of DARTS (`studies/proxy.toml`, seeds 100 to 104), of {grid} on a grid (`python studies/doctor.py`): {chosen}.
There the scores are {scores}. {verdict} What follows is about the default.

- **Lead.** In the collapsed runs that were warned of, the first warning comes {lead:.0f} epochs before the end of 40
  (median), and {delay:.0f} epochs after four of the six edges have become skip connections for the first time.
- **False alarms.** {recovered} of the warned runs ended at a cell that is better than half of the space:
  {recovered_names}.
- **Missed.** {missed}.
- **Stopping.** With the cell of the epoch before the first warning, the {warned} warned runs would have ended at
  {stopped:.2f} instead of {ended:.2f} %: a change of {change}. That is nearly what `--on-collapse stop`
  does, which takes the last usable epoch.
- **Switching.** {switching}

## What tells whether to trust a search

The cells of these runs by the last verdict: accuracy in the table, the worst, and how many of the 4,096 cells are worse
in the mean.

| the last verdict | runs | CIFAR-10 | worst run | worse cells |
|---|---|---|---|---|
{verdicts}

What a search knows of itself at its end, and the accuracy of its cell: Spearman's rank correlation over all of these
runs, and over the seeds of one method (the mean over {methods} methods with ten seeds, where it varies).

| at the end | all runs | seeds of one method |
|---|---|---|
{signals}

Within one method, neither how much is decided nor how accurate the mixture is tells the better seed by more than a weak
correlation; the number of skip connections does.
"""
SIGNALS: Mapping[str, Callable[[Record], float]] = {
    "skip connections": lambda one: one["skips"],
    "decided": lambda one: 1 - one["entropy"] / one["entropy_max"],
    "accuracy with the mixture": lambda one: one["mixture_accuracy"],
    "accuracy with the one architecture, same weights": lambda one: one["discrete_accuracy"],
    "alignment of the cells' gradients": lambda one: one["alignment"],
}
"""What the last record of a run tells."""


@dataclass(frozen=True)
class Warned:
    """What a run came to: the epoch of the first warning, the last verdict, and how it ended."""

    name: str
    first: int | None
    verdict: str
    collapsed: bool
    lead: int
    delay: int | None
    before: float
    end: float

    @property
    def at_end(self) -> bool:
        """Whether the last verdict was a warning."""
        return self.verdict == WARNING

    @classmethod
    def of(cls, name: str, records: list[Record], collapsed: bool, thresholds: Thresholds | None = None) -> Warned:
        """Diagnose a run after each epoch."""
        said = [diagnose(records[:end], len(records), thresholds).verdict for end in range(1, len(records) + 1)]
        first = next((one["epoch"] for one, verdict in zip(records, said, strict=True) if verdict == WARNING), None)
        skipping = next((one["epoch"] for one in records if one.get("skips", 0) >= 4), None)
        before = [one for one in records if first is not None and one["epoch"] < first]
        end = records[-1]
        return cls(
            name, first, said[-1], collapsed, end["epoch"] - (first or 0),
            None if first is None or skipping is None else first - skipping,
            float((before[-1] if before else end)[CIFAR10]), float(end[CIFAR10]),
        )  # fmt: skip


def _warned(found: Runs, worse: Worse, thresholds: Thresholds | None = None) -> list[Warned]:
    """Return what all runs came to that have diagnoses."""
    return [
        Warned.of(f"`{variant}` seed {seed}", records, worse(records[-1][CIFAR10]) < 50, thresholds)
        for variant, seeds in found.items()
        for seed, records in sorted(seeds.items())
        if "diagnosis" in records[-1]
    ]


def _scores(runs: list[Warned]) -> tuple[float, float]:
    """Return the F1 scores of the warnings at the end and in any epoch: 2·right / (warned + collapsed)."""
    collapsed = sum(one.collapsed for one in runs)

    def score(warned: list[Warned]) -> float:
        return 2 * sum(one.collapsed for one in warned) / max(len(warned) + collapsed, 1)

    return score([one for one in runs if one.at_end]), score([one for one in runs if one.first is not None])


def chosen_thresholds(found: Runs, worse: Worse) -> Thresholds:
    """Return those of the grid with the best scores; of equal ones the first, which is nearest to the default."""
    return max(_grid(), key=lambda limits: sum(_scores(_warned(found, worse, limits))))


def _grid() -> Iterator[Thresholds]:
    return (Thresholds(**dict(zip(GRID, values, strict=True))) for values in product(*GRID.values()))


def _row(text: str, said: list[Warned], collapsed: int) -> str:
    right = sum(one.collapsed for one in said)
    return f"| {text} | {len(said)} | {right} ({right / len(said):.2f}) | {right} ({right / collapsed:.2f}) |"


def doctor_page(found: Runs, development: Runs, worse: Worse, switched: Mapping[int, list[Record]]) -> str:
    """Return the page; ``worse`` is the share of cells, in per cent, that have a lower accuracy.

    ``development`` are the runs by which the thresholds are chosen, and ``switched`` runs of DARTS with ``--on-collapse
    switch``, by seed.
    """
    limits = replace(Thresholds(), **json.loads(CHOSEN.read_text(encoding="utf-8")))
    runs, others = (_warned(found, worse, one) for one in (None, limits))
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
            _row(f"{when}, {name}", said, len(collapsed))
            for name, every in (("default", runs), ("chosen", others))
            for when, said in (
                ("at the end", [one for one in every if one.at_end]),
                ("in any epoch", [one for one in every if one.first is not None]),
            )
        ),
        grid=sum(1 for _ in _grid()),
        chosen=", ".join(f"`{name}` {value} instead of {own}" for name, value, own in _changed(limits)),
        scores=_shown(*(_scores(_warned(development, worse, one)) for one in (None, limits))),
        verdict=_verdict(_scores(runs), _scores(others)),
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
        verdicts="\n".join(_verdicts(runs, worse)),
        methods=len(_of_ten_seeds(found)),
        signals="\n".join(_signals(found)),
    )


def _verdicts(runs: list[Warned], worse: Worse) -> Iterator[str]:
    """Yield a row for each last verdict, the best first."""
    groups = {verdict: [one.end for one in runs if one.verdict == verdict] for verdict in {one.verdict for one in runs}}
    for verdict, ends in sorted(groups.items(), key=lambda item: -mean(item[1])):
        share = mean(worse(end) for end in ends)
        yield f"| {verdict} | {len(ends)} | {mean(ends):.2f} | {min(ends):.2f} | {share:.0f} % |"


def _of_ten_seeds(found: Runs) -> list[list[Record]]:
    """Return the last records of each method that has ten seeds and diagnoses."""
    ends = ([records[-1] for records in seeds.values()] for seeds in found.values())
    return [own for own in ends if len(own) >= 10 and "diagnosis" in own[0]]


def _signals(found: Runs) -> Iterator[str]:
    """Yield the rank correlations of what runs tell at their ends with the accuracy of their cells."""
    every = [end for seeds in found.values() for end in (one[-1] for one in seeds.values()) if "diagnosis" in end]
    for name, signal in SIGNALS.items():
        own = [_rank_correlation(signal, ends) for ends in _of_ten_seeds(found) if len({*map(signal, ends)}) > 1]
        yield f"| {name} | {_rank_correlation(signal, every):+.2f} | {mean(own):+.2f} |"


def _rank_correlation(signal: Callable[[Record], float], ends: list[Record]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr([signal(one) for one in ends], [one[CIFAR10] for one in ends]).statistic)


def _changed(limits: Thresholds) -> list[tuple[str, float, float]]:
    """Return the thresholds that differ from the default: name, value, default."""
    values = [(one.name, getattr(limits, one.name), getattr(Thresholds(), one.name)) for one in fields(limits)]
    return [one for one in values if one[1] != one[2]]


def _shown(default: tuple[float, float], chosen: tuple[float, float]) -> str:
    texts = [" and ".join(f"{score:.2f}" for score in scores) for scores in (chosen, default)]
    return f"{texts[0]}, by default {texts[1]}"


def _verdict(default: tuple[float, float], chosen: tuple[float, float]) -> str:
    """Say whether the chosen thresholds are better in the main study as well."""
    said = f"In the main study they are {_shown(default, chosen)}"
    if all(one > other for one, other in zip(chosen, default, strict=True)):
        return f"{said}: the chosen thresholds are better."
    return f"{said}: the chosen thresholds are not better in both, so the default stays."


def _switching(before: Mapping[int, list[Record]], switched: Mapping[int, list[Record]]) -> str:
    """Say what `--on-collapse switch` changes for DARTS, seed by seed."""
    seeds = sorted(set(before) & set(switched))
    if not seeds:
        return "`--on-collapse switch` was not run."
    ends = [(before[seed][-1], switched[seed][-1]) for seed in seeds]
    count = sum(any("switched_from" in one for one in switched[seed]) for seed in seeds)
    own, other = (mean(float(pair[at][CIFAR10]) for pair in ends) for at in (1, 0))
    changes = summarize([float(after[CIFAR10]) - float(first[CIFAR10]) for first, after in ends])
    low, high = changes.interval or (changes.mean, changes.mean)
    fewer = mean(float(first["skips"]) - float(after["skips"]) for first, after in ends)
    word = "it helps" if low > 0 else "it does harm" if high < 0 else "that it helps is not shown"
    return (
        f"Of {len(seeds)} runs of `darts --on-collapse switch` (`studies/switch.toml`) {count} went back and continued "
        f"with layer\n  alignment. All {len(seeds)} end at {own:.2f} %, the same seeds without it at {other:.2f} %: "
        f"{changes.mean:+.2f} points (95 % interval\n  {low:+.2f} to {high:+.2f}), {fewer:.1f} skip connections fewer; "
        f"{word}."
    )


def main() -> None:
    """Choose thresholds by the development runs, and keep those that differ from the default."""
    limits = asdict(chosen_thresholds(read_runs("proxy"), worse_share()))
    own = {name: value for name, value in limits.items() if value != getattr(Thresholds(), name)}
    write_text(CHOSEN, json.dumps(own) + "\n")


if __name__ == "__main__":
    main()
