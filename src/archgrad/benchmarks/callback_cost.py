"""What the measurements that every run makes cost, as a share of its iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from archgrad.benchmarks.methods import TimedSearch
from archgrad.benchmarks.speed import Case
from archgrad.benchmarks.timing import in_turns, one_thread
from archgrad.callbacks import ArchCurvature, LayerAgreement
from archgrad.hypergradients import Batches
from archgrad.loop.step_batches import Drawn
from archgrad.recipes import named

__all__ = ["BAR", "METHODS", "Checkup", "measure"]

METHODS = ("darts", "gaea-simultaneous")
BAR = 0.03
_PATIENCE = 20.0
_CALLS = 20


@dataclass(frozen=True)
class Checkup:
    """Milliseconds of an iteration, of the layer measures in each, and of an eigenvalue in one of ``apart``."""

    space: str
    method: str
    iteration: float
    layers: float
    eigenvalue: float
    apart: int

    @property
    def share(self) -> float:
        """What both add to an iteration, on average, where epochs have so many steps or divide them."""
        return (self.layers + self.eigenvalue / self.apart) / self.iteration

    def __str__(self) -> str:
        verdict = "met" if self.share <= BAR else "MISSED"
        return (
            f"{self.space:<11} {self.method:<17} at most {100 * BAR:.0f} %: {verdict}, {100 * self.share:.1f} %; "
            f"layers {self.layers:.2f} and eigenvalue/{self.apart} {self.eigenvalue / self.apart:.2f} of "
            f"{self.iteration:.0f} ms"
        )


def measure(case: Case, method: str, repeats: int = 5) -> Checkup:
    """Measure them at the beginning of a search."""
    search, curvature = TimedSearch.of(case, named(method)), ArchCurvature()
    with one_thread():
        steps: list[Callable[[], object]] = [*search.steps().values(), _layers(search), _eigenvalue(search, curvature)]
        *taken, layers, eigenvalue = (step.milliseconds for step in in_turns(steps, repeats, _PATIENCE))
    iteration = sum(step.per_iteration * step.milliseconds for step in search.shared(taken).values())
    return Checkup(case.space, method, iteration, layers / _CALLS, eigenvalue, curvature.minimum)


def _layers(search: TimedSearch) -> Callable[[], object]:
    batch = Drawn(search.setup.weight_loader, search.setup.arch_loader, 0).outer()
    slopes, agreement = search.stepper.slopes(search.state, batch), LayerAgreement()
    return lambda: [agreement.measure_gradients(search.setup.space.searched, slopes) for _ in range(_CALLS)]


def _eigenvalue(search: TimedSearch, curvature: ArchCurvature) -> Callable[[], object]:
    setup, state = search.setup, search.state
    batches = Drawn(setup.weight_loader, setup.arch_loader, 0)

    def measured() -> object:
        moment = setup.stepper(state).moment(state)
        with moment.at(state.alpha, Batches([batches.inner(0)]), batches.outer()) as point:
            return curvature.measure_point(point)

    return measured
