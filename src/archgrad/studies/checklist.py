"""The checklist of good practice for research on architecture search, filled in from the runs of a study.

Its questions, in our words, are those of Lindauer & Hutter, "Best Practices for Scientific Research on Neural
Architecture Search", JMLR 21 (243), 2020; the last two, on the test images and on failed runs, are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from archgrad.studies.fairness import NO_EPOCHS, differences
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import StudyPlan
from archgrad.studies.results import ORACLE, BenchmarkResults

__all__ = ["CHECKLIST", "Answer", "ChecklistItem", "Fact", "facts_of", "fill_in"]

Answer = Literal["yes", "no", "not applicable", "not known"]
Fact = str | int | float | bool | tuple[str | int, ...] | None
"""What is known: False, 0 or nothing is a no, None means that it does not apply; a text or number is the evidence."""

CHECKLIST: Mapping[str, tuple[str, ...]] = {
    "Can others get the code that trains the final architectures?": ("training_code",),
    "Can others get the code of the search space?": ("space_code",),
    "Are settings and seeds of the final training given?": ("training_settings", "training_seeds"),
    "Can others get the code of the search methods?": ("search_code",),
    "Are settings and seeds of the searches given?": ("search_settings", "search_seeds"),
    "Do all methods share one benchmark: data and split, space, and training of what they find?": (
        "same_space", "same_data_and_split", "same_training",
    ),
    "Are machines, library versions and budgets equal, so that only the methods differ?": (
        "same_hardware", "same_versions", "same_budget",
    ),
    "Do ablations show which part of a method matters?": ("ablations",),
    "Is every method evaluated in the same way, on the same seeds?": ("same_training", "same_seeds"),
    "Are results compared over time, not only at the end?": ("curves",),
    "Is random search in the same space among the methods?": ("random_search",),
    "Is every method run several times, with its seeds given?": ("runs_per_variant", "search_seeds"),
    "Does a tabular or surrogate benchmark deepen the comparison?": ("tabular_benchmark",),
    "Is it said how settings were tuned, and what that cost?": ("tuning", "tuning_cost"),
    "Is the time of the whole procedure given, not of the search alone?": ("total_time",),
    "Are all details of the experiments given: machines, versions, settings?": (
        "hardware", "versions", "search_settings",
    ),
    "Did no search and no selection see the test images?": ("test_set_unused",),
    "Are failed runs counted and named?": ("failed_runs_named",),
}  # fmt: skip
"""All questions, with the facts that answer them: yes if all are true."""

_LEAST = {"runs_per_variant": 2}
"""Numbers below these are a no."""
_RANDOM = ("random-search", "random-nas", "random-cells")
_DATA = ("images", "image size", "held out", "split")
_BUDGET = ("epochs", "batch size", "weight steps", "split")
"""How sentences begin that tell of other data, or of another budget."""


class ChecklistItem(NamedTuple):
    """A question with its answer, and the facts that it rests on."""

    question: str
    answer: Answer
    evidence: str


def fill_in(facts: Mapping[str, Fact]) -> list[ChecklistItem]:
    """Answer every question of the checklist from ``facts``.

    An absent fact is not known. A question is answered with no if one of its facts is a no, and with not known if one
    of the others is not known. Facts that do not apply are passed over.

    >>> filled = {one.question: one for one in fill_in({"random_search": "random-search", "curves": False})}
    >>> filled["Is random search in the same space among the methods?"][1:]
    ('yes', 'random search: random-search')
    """
    order: tuple[Answer, ...] = ("no", "not known", "yes", "not applicable")
    filled = []
    for question, names in CHECKLIST.items():
        answers = {_answer(name, facts) for name in names}
        known = [name for name in names if facts.get(name) is not None]
        evidence = "; ".join(f"{name.replace('_', ' ')}: {_shown(facts[name])}" for name in known)
        filled.append(ChecklistItem(question, next(one for one in order if one in answers), evidence))
    return filled


def _answer(name: str, facts: Mapping[str, Fact]) -> Answer:
    if name not in facts:
        return "not known"
    value = facts[name]
    if value is None:
        return "not applicable"
    too_few = isinstance(value, int) and value < _LEAST.get(name, 0)
    return "yes" if value and not too_few else "no"


def _shown(value: Fact) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "none"


def facts_of(folder: StudyFolder, plan: StudyPlan, results: Sequence[BenchmarkResults]) -> dict[str, Fact]:
    """Return what the plan and the runs say; what they cannot say is left out."""
    unlike = [sentence for benchmark in plan.benchmarks for sentence in differences(plan, benchmark)]
    looked_up = all(one.usual_measure.startswith(ORACLE) for one in results)
    counts = [len(seeds) for one in results for seeds in one.runs.values()]
    runs = [run for one in results for seeds in one.runs.values() for run in seeds.values()]
    budgets = {one.partition(NO_EPOCHS)[2] for one in unlike if NO_EPOCHS in one}
    alike = len({one.is_blackbox for one in plan.variants}) == 1
    finished = {run.run.variant.name for run in runs}
    random = [one.name for one in plan.variants if one.method in _RANDOM and one.name in finished]
    not_trained: dict[str, Fact] = dict.fromkeys(("training_code", "training_settings", "training_seeds"))
    machines: dict[str, Fact] = {}
    for what in ("hardware", "versions"):
        told = {getattr(run, what) for run in runs}
        if None not in told:  # runs of an earlier version do not say it
            machines |= {what: "; ".join(sorted(told)), f"same_{what}": len(told) == 1}
    return {
        **not_trained,
        **machines,
        "space_code": "archgrad.spaces",
        "search_code": "archgrad.recipes",
        "search_settings": f"{folder.path / 'study.toml'}, and config.toml of every run",
        "search_seeds": tuple(map(str, plan.seeds)),
        "same_space": not any(one.startswith(("space", "width")) for one in unlike),
        "same_data_and_split": alike and not any(one.startswith(_DATA) for one in unlike),
        "same_training": looked_up,
        "same_seeds": len(set(counts)) == 1,
        "same_budget": alike and len(budgets) < 2 and not any(one.startswith(_BUDGET) for one in unlike),
        "curves": "metrics.jsonl of every run: `archgrad plot`",
        "random_search": ", ".join(random),
        "runs_per_variant": min(counts),
        "tabular_benchmark": "NAS-Bench table" if looked_up else False,
        "total_time": f"{sum(run.seconds for run in runs) / 60:,.2f} minutes of searches",
        "test_set_unused": True,
        "failed_runs_named": "failures.json" if any(one.failed for one in results) else None,
    }
