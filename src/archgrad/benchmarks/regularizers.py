"""What a regulariser adds to an iteration of first-order bilevel DARTS, in time, and to its weight step, in memory.

Times are process CPU time on one thread, the fastest of the repeats, and every regulariser is measured in turns with
plain DARTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from archgrad.benchmarks import callback_cost, methods
from archgrad.benchmarks.memory import growth, in_new_process
from archgrad.benchmarks.speed import Case
from archgrad.benchmarks.timing import in_turns, one_thread
from archgrad.errors import unknown
from archgrad.method import Method
from archgrad.recipes import darts
from archgrad.regularizers import (
    AdversarialPerturbation,
    AuxiliarySkip,
    BetaDecay,
    LayerAlignment,
    RandomPerturbation,
    Regularizer,
)

__all__ = ["BARS", "HEADER", "MEMBERS", "PLAIN", "Bar", "Limits", "Report", "Row", "bars", "cases", "measure", "run"]

PLAIN = "none"

MEMBERS: dict[str, Regularizer] = {
    "LayerAlignment interleaved": LayerAlignment(difference="interleaved", schedule="constant"),
    "LayerAlignment central": LayerAlignment(difference="central", schedule="constant"),
    "LayerAlignment exact": LayerAlignment(difference="exact", schedule="constant"),
    "LayerAlignment central, sign": LayerAlignment("sign", difference="central", schedule="constant"),
    "LayerAlignment crossed kinks": LayerAlignment(difference="central", schedule="constant", kinks="crossed"),
    "RandomPerturbation": RandomPerturbation(),
    "AdversarialPerturbation": AdversarialPerturbation(),
    "BetaDecay": BetaDecay(),
    "AuxiliarySkip": AuxiliarySkip(),
}
"""What is measured, by what the table calls it; alignment has its whole strength from the first step on."""


@dataclass(frozen=True)
class Limits:
    """What a regulariser may cost: iterations of plain DARTS, and weight steps of it in memory."""

    cost: float
    memory: float


BARS = {
    "LayerAlignment interleaved": Limits(cost=1.6, memory=1.1),
    "LayerAlignment central": Limits(cost=2.1, memory=1.1),
    "LayerAlignment exact": Limits(cost=2.2, memory=2.0),
}

HEADER = (
    f"{'regulariser':<28} | {'α step':>8} | {'weight step':>11} | {'iteration':>9} {'cost':>7} | "
    f"{'memory':>8} {'of plain':>8}"
)

_CASES = (Case("nasbench201", 16, 1, 32, 64), Case("darts", 8, 5, 32, 16))
_PATIENCE = 20.0


@dataclass(frozen=True)
class Row:
    """One regulariser on one space, at the beginning of a search.

    ``milliseconds`` is an iteration of the loop with the loading of its batches: the step of the architecture and that
    of the weights, which ``cost`` gives in iterations without regulariser. ``megabytes`` is by how much a process grows
    in two weight steps, and ``memory`` the same in what it grows without regulariser; None if not measured.
    """

    space: str
    regularizer: str
    architecture: float
    weights: float
    milliseconds: float
    cost: float
    megabytes: float | None
    memory: float | None

    def __str__(self) -> str:
        megabytes = "" if self.megabytes is None else f"{self.megabytes:.0f} MB"
        memory = "" if self.memory is None else f"{self.memory:.2f}x"
        return (
            f"{self.regularizer:<28} | {self.architecture:>5.0f} ms | {self.weights:>8.0f} ms | "
            f"{self.milliseconds:>6.0f} ms {self.cost:>6.2f}x | {megabytes:>8} {memory:>8}"
        )


@dataclass(frozen=True)
class Bar:
    """What a regulariser may cost on a space, in time and memory, and what it does."""

    row: Row
    limits: Limits

    @property
    def met(self) -> bool:
        """Whether it costs no more; memory that was not measured is not judged."""
        cheap = self.row.cost <= self.limits.cost
        return cheap and (self.row.memory is None or self.row.memory <= self.limits.memory)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "met": self.met}

    def __str__(self) -> str:
        row, limits = self.row, self.limits
        memory = "not measured" if row.memory is None else f"{row.memory:.2f}x"
        return (
            f"{row.space:<11} {row.regularizer:<26} at most {limits.cost}x time, {limits.memory}x memory: "
            f"{'met' if self.met else 'MISSED'}, {row.cost:.2f}x, memory {memory}"
        )


@dataclass(frozen=True)
class Report:
    """All that was measured."""

    cases: list[Case]
    rows: list[Row]
    bars: list[Bar]
    checkups: list[callback_cost.Checkup]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        shares = [{**asdict(checkup), "share": checkup.share} for checkup in self.checkups]
        return {**asdict(self), "bars": [bar.to_dict() for bar in self.bars], "checkups": shares}


def cases(space: str | None = None) -> list[Case]:
    """Return NAS-Bench-201 and DARTS, or one of them."""
    names = [case.space for case in _CASES]
    if space is not None and space not in names:
        raise unknown("space to measure regularisers on:", space, names)
    return [case for case in _CASES if space in (None, case.space)]


def run(space: str | None, repeats: int, memory: bool, tell: Callable[[str], object]) -> Report:
    """Measure every regulariser, telling each line as soon as it is known."""
    chosen, rows = cases(space), list[Row]()
    for case in chosen:
        tell(methods.described(case, repeats))
        tell(HEADER)
        for row in measure(case, repeats, memory):
            tell(str(row))
            rows.append(row)
        tell("")
    judged = bars(rows)
    tell("bars, in plain iterations and weight steps")
    for bar in judged:
        tell(str(bar))
    tell("")
    tell("what every run measures of itself")
    checkups = [callback_cost.measure(case, method, repeats) for case in chosen for method in callback_cost.METHODS]
    for checkup in checkups:
        tell(str(checkup))
    return Report(chosen, rows, judged, checkups)


def measure(case: Case, repeats: int = 5, memory: bool = True, names: Iterable[str] = MEMBERS) -> Iterator[Row]:
    """Measure plain DARTS and the named regularisers; one that has taken 20 seconds is not repeated any more."""
    plain = in_new_process(peak, case, None) if memory else None
    with one_thread():
        reference = methods.TimedSearch.of(case, _with(None))
        yield _row(case, PLAIN, reference, reference, repeats, plain, plain)
        for name in names:
            member = MEMBERS[name]
            found = in_new_process(peak, case, member) if memory else None
            yield _row(case, name, reference, methods.TimedSearch.of(case, _with(member)), repeats, found, plain)


def bars(rows: Iterable[Row]) -> list[Bar]:
    """Compare the rows that have bars with them."""
    return [Bar(row, BARS[row.regularizer]) for row in rows if row.regularizer in BARS]


def peak(case: Case, regularizer: Regularizer | None) -> float:
    """Return how much this process grows in two weight steps, in megabytes."""
    return growth(methods.TimedSearch.of(case, _with(regularizer)).steps()["weights"])


def _with(regularizer: Regularizer | None) -> Method:
    return replace(darts(), regularizers=() if regularizer is None else (regularizer,))


def _row(
    case: Case,
    name: str,
    reference: methods.TimedSearch,
    found: methods.TimedSearch,
    repeats: int,
    megabytes: float | None,
    plain: float | None,
) -> Row:
    searches = [found] if found is reference else [reference, found]
    timed = in_turns([step for search in searches for step in search.steps().values()], repeats, _PATIENCE)
    times = [step.milliseconds for step in timed]
    architecture, weights = times[-2:]
    return Row(
        case.space,
        name,
        architecture,
        weights,
        architecture + weights,
        (architecture + weights) / sum(times[:2]),
        megabytes,
        megabytes / plain if megabytes is not None and plain else None,
    )
