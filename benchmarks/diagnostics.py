"""What the measurements that every run makes cost, as a share of its iterations.

``agreement`` is taken in every step; ``eigenvalue`` in one of ``every`` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from archgrad.callbacks import ArchCurvature, LayerAgreement
from archgrad.hypergradients import Batches
from archgrad.recipes import named
from benchmarks.common import Case, Report, options, times
from benchmarks.search_steps import SearchSteps

CASES = [Case("nasbench201", 16, 1, 32, 64), Case("darts", 8, 5, 32, 16)]
METHODS = ("darts", "gaea-simultaneous")
CALLS = 20
"""An agreement takes less than the clock can tell, so that many are timed at once."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both for a bilevel and a single-level method."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for case in chosen.cases:
        for name in METHODS:
            search, curvature = SearchSteps(case, named(name)), ArchCurvature()
            steps = [*search.steps(), agreements(search), partial(eigenvalue, search, curvature)]
            *taken, agreement, bent = times(steps, chosen.repeats)
            iteration = search.milliseconds(taken)["iteration"]
            report.add(
                space=case.space,
                method=name,
                iteration_ms=iteration,
                agreement_ms=agreement / CALLS,
                eigenvalue_ms=bent,
                every=curvature.minimum,
                share=(agreement / CALLS + bent / curvature.minimum) / iteration,
            )
    report.store(chosen.json)


def agreements(search: SearchSteps) -> Callable[[], object]:
    """Return what compares the gradients of the cells, which a search has anyway."""
    gradients = search.stepper.mixture_gradients(search.state, search.batches())
    return lambda: [LayerAgreement().measure_gradients(search.setup.blocks, gradients) for _ in range(CALLS)]


def eigenvalue(search: SearchSteps, curvature: ArchCurvature) -> None:
    """Estimate the largest eigenvalue of the architecture's loss."""
    batches, state = search.batches(), search.state
    step = search.setup.stepper(state).bilevel_step(state)
    with step.at(state.alpha, Batches([batches.inner(0)]), batches.outer()) as point:
        curvature.measure_point(point)


if __name__ == "__main__":
    main()
