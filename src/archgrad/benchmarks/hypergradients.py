"""What an architecture gradient costs, and how near it is to itself with exact products.

Costs are multiples of the first-order architecture step, in process CPU time on one thread, measured in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar, get_args

from archgrad.autodiff.products import ProductKind
from archgrad.autodiff.vectors import added, cosine, norm
from archgrad.benchmarks import hypergradient_memory as memory_of
from archgrad.benchmarks.hypergradient_memory import MemoryRow
from archgrad.benchmarks.midway import TRAINING_STEPS, Midway
from archgrad.benchmarks.speed import Case
from archgrad.benchmarks.timing import in_turns, one_thread
from archgrad.errors import unknown
from archgrad.hypergradients import (
    T1T2,
    Amended,
    ConjugateGradient,
    FirstOrder,
    Hypergradient,
    Neumann,
    ReverseMode,
    TruncatedReverse,
    Unrolled,
)

__all__ = ["BARS", "ESTIMATORS", "HEADER", "KINDS", "Bar", "Report", "Row", "bars", "cases", "measure", "run"]

KINDS: tuple[ProductKind, ...] = get_args(ProductKind)

ESTIMATORS: dict[str, Callable[..., Hypergradient]] = {
    "Unrolled": Unrolled,
    "T1T2": T1T2,
    **{f"Neumann K={terms}": partial(Neumann, terms=terms) for terms in range(4)},
    "ConjugateGradient T=2": partial(ConjugateGradient, steps=2, damping=10.0),
    "Amended": Amended,
    **{f"ReverseMode T={steps}": partial(ReverseMode, steps=steps) for steps in (1, 4)},
    "TruncatedReverse T=4 keep=2": partial(TruncatedReverse, steps=4, keep=2),
}
"""Whatever has products, by what the table calls it; the damping lets conjugate gradient take all its steps."""

BARS = {"Unrolled": 5.5, "Amended": 7.0, "Neumann K=2": 9.0}
"""What three of them may cost, in first-order steps."""

HEADER = (
    f"{'estimator':<27} {'products':<8} | {'time':>11} {'cost':>8} | {'cosine':>9} {'of 2nd term':>11} | "
    f"{'2nd/1st term':>12}"
)

_CASES = (Case("nasbench201", 8, 1, 16, 64), Case("darts", 8, 5, 32, 32))
_LONGEST = 4
_PATIENCE = 35.0
_TRUE_ENOUGH = 0.999

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One estimator with one kind of products on one space.

    ``cost`` is in first-order steps. ``cosine`` is that to the same estimator with exact products, ``second_cosine``
    the same of the second terms alone: what an estimate adds to ∂L2/∂α, taken where the estimator takes it, which is
    ahead of the current weights for those with virtual steps. ``second_size`` is its length in lengths of ∂L2/∂α.
    """

    space: str
    estimator: str
    products: str
    milliseconds: float
    cost: float
    cosine: float
    second_cosine: float
    second_size: float

    def __str__(self) -> str:
        return (
            f"{self.estimator:<27} {self.products:<8} | {self.milliseconds:>8.0f} ms {self.cost:>7.2f}x | "
            f"{self.cosine:>9.6f} {self.second_cosine:>11.6f} | {self.second_size:>12.2e}"
        )


@dataclass(frozen=True)
class Bar:
    """What an estimator may cost on a space, and its cheapest row that is true enough, if there is one."""

    space: str
    estimator: str
    limit: float
    row: Row | None

    @property
    def met(self) -> bool:
        """Whether a true estimate is cheap enough."""
        return self.row is not None and self.row.cost <= self.limit

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "met": self.met}

    def __str__(self) -> str:
        found = f"no products with a cosine of {_TRUE_ENOUGH}"
        if self.row is not None:
            found = f"{self.row.cost:.2f}x with {self.row.products} products, cosine {self.row.cosine:.6f}"
        return (
            f"{self.space:<11} {self.estimator:<11} at most {self.limit}x: {'met' if self.met else 'MISSED'}, {found}"
        )


@dataclass(frozen=True)
class Report:
    """All that was measured."""

    cases: list[Case]
    rows: list[Row]
    memory_case: Case | None
    memory: list[MemoryRow]
    bars: list[Bar]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "bars": [bar.to_dict() for bar in self.bars]}


def cases(space: str | None = None) -> list[Case]:
    """Return NAS-Bench-201 at its proxy size and DARTS, or one of them."""
    names = [case.space for case in _CASES]
    if space is not None and space not in names:
        raise unknown("space to measure hypergradients on:", space, names)
    return [case for case in _CASES if space in (None, case.space)]


def run(space: str | None, repeats: int, memory: bool, tell: Callable[[str], object]) -> Report:
    """Measure everything, telling each line as soon as it is known.

    DARTS takes a second for a first-order step: unless it is asked for, only what has a bar is measured there.
    """
    chosen, rows = cases(space), []
    for case in chosen:
        names = BARS if case.space == "darts" and space is None else ESTIMATORS
        tell(f"{_described(case)}, after {TRAINING_STEPS} steps of SGD; the fastest of at most {repeats}")
        rows += _told(measure(case, repeats, names), HEADER, tell)
    found, memory_case = [], memory_of.case_for(space) if memory else None
    if memory_case is not None:
        tell(f"{_described(memory_case)}; growth of a fresh process's resident memory by an estimate")
        found = _told(memory_of.measure(memory_case), memory_of.HEADER, tell)
    return Report(chosen, rows, memory_case, found, _told(bars(rows), "bars, in first-order steps", tell))


def measure(case: Case, repeats: int = 5, names: Iterable[str] = ESTIMATORS) -> Iterator[Row]:
    """Measure the first-order step and the named estimators with every kind of products.

    An estimator that has taken 35 seconds is not repeated any more.
    """
    with one_thread():
        midway = Midway.of(case, inner_batches=_LONGEST)
        (first,) = in_turns([partial(midway.estimate, FirstOrder())], repeats, _PATIENCE)
        yield Row(case.space, "FirstOrder", "-", first.milliseconds, 1.0, 1.0, 1.0, 0.0)
        for name in names:
            yield from _rows(case, midway, name, repeats)


def bars(rows: Iterable[Row]) -> list[Bar]:
    """Compare the rows with their bars, each by the cheapest kind of products that is true enough."""
    held: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.estimator in BARS:
            held.setdefault((row.space, row.estimator), []).append(row)
    return [
        Bar(space, name, BARS[name], min(filter(_is_true, found), key=lambda row: row.cost, default=None))
        for (space, name), found in held.items()
    ]


def _is_true(row: Row) -> bool:
    return row.cosine >= _TRUE_ENOUGH


def _rows(case: Case, midway: Midway, name: str, repeats: int) -> Iterator[Row]:
    members = [ESTIMATORS[name](products=kind) for kind in KINDS]
    steps = [partial(midway.estimate, member) for member in (FirstOrder(), *members)]
    first_order, *timed = in_turns(steps, repeats, _PATIENCE)
    first = midway.first_term(members[0])
    exact = timed[KINDS.index("exact")].result
    for kind, estimate in zip(KINDS, timed, strict=True):
        second = added(estimate.result, first, -1.0)
        yield Row(
            case.space,
            name,
            kind,
            estimate.milliseconds,
            estimate.milliseconds / first_order.milliseconds,
            cosine(estimate.result, exact),
            cosine(second, added(exact, first, -1.0)),
            norm(second) / norm(first),
        )


def _described(case: Case) -> str:
    cells = f"{case.cells} {'cell per stage' if case.space == 'nasbench201' else 'cells'}"
    return f"{case.space}: C={case.channels}, {cells}, {case.image_size}x{case.image_size} images, batch {case.batch}"


def _told(found: Iterable[T], title: str, tell: Callable[[str], object]) -> list[T]:
    kept = []
    tell(title)
    for row in found:
        tell(str(row))
        kept.append(row)
    tell("")
    return kept
