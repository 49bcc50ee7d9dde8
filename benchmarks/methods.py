"""What one iteration of the search loop costs with each recipe, in iterations of first-order bilevel DARTS.

An iteration has the steps of α and of the weights as often as the schedule takes them, with the loading of batches.
Every recipe is measured in turns with DARTS.
"""

from __future__ import annotations

from collections.abc import Sequence

from archgrad.recipes import RECIPES, named
from benchmarks.common import Case, Report, options, times
from benchmarks.search_steps import SearchSteps

CASES = [Case("nasbench201", 16, 1, 32, 64), Case("darts", 8, 5, 32, 16)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every recipe."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for case in chosen.cases:
        darts = SearchSteps(case, named("darts"))
        for name in RECIPES:
            own = SearchSteps(case, named(name))
            found = times([*darts.steps(), *own.steps()], chosen.repeats)
            base = darts.milliseconds(found[: len(darts.steps())])["iteration"]
            taken = own.milliseconds(found[len(darts.steps()) :])
            report.add(
                space=case.space,
                method=name,
                **{f"{kind}_ms": taken.get(kind) for kind in ("architecture", "weights", "joint", "iteration")},
                cost=taken["iteration"] / base,
                weight_steps=own.per_iteration.get("weights", 1.0),
                channels=1 / own.setup.options.partial,
            )
    report.store(chosen.json)


if __name__ == "__main__":
    main()
