"""What a regularizer adds to an iteration of first-order bilevel DARTS, and to the memory of its weight step.

``cost`` is in iterations without regularizer, measured in turns with them; memory is what two weight steps add to a
fresh process, in megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from archgrad.method.bundle import Method
from archgrad.recipes import darts
from archgrad.regularizers import (
    AdversarialPerturbation,
    AuxiliarySkip,
    BetaDecay,
    LayerAlignment,
    RandomPerturbation,
    Regularizer,
)
from benchmarks.common import Case, Report, growth, in_new_process, options, times
from benchmarks.search_steps import SearchSteps

CASES = [Case("nasbench201", 16, 1, 32, 64), Case("darts", 8, 5, 32, 16)]
MEMBERS: dict[str, Regularizer | None] = {
    "none": None,
    "LayerAlignment interleaved": LayerAlignment(difference="interleaved"),
    "LayerAlignment central": LayerAlignment(difference="central"),
    "LayerAlignment exact": LayerAlignment(difference="exact"),
    "LayerAlignment crossed kinks": LayerAlignment(difference="central", kinks="crossed"),
    "RandomPerturbation": RandomPerturbation(),
    "AdversarialPerturbation": AdversarialPerturbation(),
    "BetaDecay": BetaDecay(),
    "AuxiliarySkip": AuxiliarySkip(),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every regularizer."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for case in chosen.cases:
        plain = SearchSteps(case, with_regularizer("none"))
        for name in MEMBERS:
            own = SearchSteps(case, with_regularizer(name))
            found = times([*plain.steps(), *own.steps()], chosen.repeats)
            base, taken = plain.milliseconds(found[:2])["iteration"], own.milliseconds(found[2:])
            report.add(
                space=case.space,
                regularizer=name,
                **{f"{kind}_ms": milliseconds for kind, milliseconds in taken.items()},
                cost=taken["iteration"] / base,
                mb=in_new_process(peak, case, name) if chosen.memory else None,
            )
    report.store(chosen.json)


def with_regularizer(name: str) -> Method:
    """Return DARTS with one regularizer, or without."""
    member = MEMBERS[name]
    return replace(darts(), regularizers=() if member is None else (member,))


def peak(case: Case, name: str) -> float:
    """Return the memory of two weight steps."""
    _, weights = SearchSteps(case, with_regularizer(name)).steps()
    return growth(weights)


if __name__ == "__main__":
    main()
