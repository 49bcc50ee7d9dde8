"""How the memory of an architecture gradient grows with the steps it looks back or the products it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from archgrad.benchmarks.memory import growth, in_new_process
from archgrad.benchmarks.midway import Midway
from archgrad.benchmarks.speed import Case
from archgrad.hypergradients import ConjugateGradient, Hypergradient, Neumann, ReverseMode, TruncatedReverse

__all__ = ["HEADER", "LENGTHS", "MemoryRow", "case_for", "measure", "peak"]

LENGTHS = (1, 4, 16)
_LABEL, _COLUMN = 33, 12

HEADER = f"{'estimator':<{_LABEL}} {'products':<8} |" + "".join(f"{f'T={length}':>{_COLUMN}}" for length in LENGTHS)

_ESTIMATORS: tuple[tuple[str, str, Callable[[int], Hypergradient]], ...] = (
    ("ReverseMode(steps=T)", "exact", lambda length: ReverseMode(steps=length)),
    ("ReverseMode(steps=T)", "finite", lambda length: ReverseMode(steps=length, products="finite")),
    ("TruncatedReverse(steps=T, keep=1)", "exact", lambda length: TruncatedReverse(steps=length, keep=1)),
    ("Neumann(terms=T)", "exact", lambda length: Neumann(terms=length)),
    ("Neumann(terms=T)", "forward", lambda length: Neumann(terms=length, products="forward")),
    ("ConjugateGradient(steps=T)", "exact", lambda length: ConjugateGradient(steps=length, damping=10.0)),
)


@dataclass(frozen=True)
class MemoryRow:
    """The megabytes of one estimator with T = 1, 4 and 16."""

    space: str
    estimator: str
    products: str
    megabytes: dict[int, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        cells = "".join(f"{f'{value:.0f} MB':>{_COLUMN}}" for value in self.megabytes.values())
        return f"{self.estimator:<{_LABEL}} {self.products:<8} |{cells}"


def case_for(space: str | None) -> Case:
    """Return a case whose sixteen graphs fit into memory: NAS-Bench-201, or DARTS if that is asked for."""
    return Case("darts", 8, 3, 16, 8) if space == "darts" else Case("nasbench201", 8, 1, 16, 32)


def measure(case: Case) -> Iterator[MemoryRow]:
    """Measure all estimators, each length in a process of its own."""
    for label, products, build in _ESTIMATORS:
        megabytes = {length: in_new_process(peak, case, build(length)) for length in LENGTHS}
        yield MemoryRow(case.space, label, products, megabytes)


def peak(case: Case, hypergradient: Hypergradient) -> float:
    """Return how much this process grows by two estimates, in megabytes; nothing is trained before."""
    midway = Midway.of(case, hypergradient.inner_batches, training_steps=0)
    return growth(partial(midway.estimate, hypergradient))
