"""The checklist of good practice for research on architecture search, filled in from the facts of a study.

Its questions, in our words, are those of Lindauer & Hutter, "Best Practices for Scientific Research on Neural
Architecture Search", JMLR 21 (243), 2020; the last two, on the test images and on failed runs, are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from archgrad.errors import look_up

__all__ = ["CHECKLIST", "FACTS", "Answer", "Fact", "FilledItem", "Item", "fill_in"]

Answer = Literal["yes", "no", "not applicable", "not known"]
Fact = str | int | float | bool | tuple[str | int, ...] | None
"""What is known: False, 0 or nothing is a no, None means that it does not apply; a text or number is the evidence."""

FACTS: dict[str, str] = {
    "training_code": "where the code is that trains the found architectures; None if nothing is trained",
    "training_settings": "where the settings of that training are; None if nothing is trained",
    "training_seeds": "the seeds of that training; None if nothing is trained",
    "space_code": "where the code of the search space is",
    "search_code": "where the code of the search methods is",
    "search_settings": "where all settings of the searches are",
    "search_seeds": "the seeds of the searches",
    "same_space": "whether all variants search one space, or each is run in every space",
    "same_data_and_split": "whether all variants have the same data and the same split",
    "same_training": "whether all found architectures are trained or looked up in the same way",
    "same_seeds": "whether all variants have the same seeds",
    "same_hardware": "whether all runs were made on one kind of machine",
    "same_versions": "whether all runs were made with the same versions of the libraries",
    "same_budget": "whether all variants have the same budget, in epochs, seconds or evaluations",
    "ablations": "which variants differ from another one in a single part",
    "curves": "whether results over time are reported",
    "random_search": "the variant that is a random search in the same space",
    "runs_per_variant": "the smallest number of finished runs of a variant",
    "tabular_benchmark": "the table that the architectures were looked up in",
    "tuning": "how settings were tuned; None if nothing was tuned",
    "tuning_cost": "what the tuning cost; None if nothing was tuned",
    "total_time": "the time of everything: tuning, all searches, selection and training",
    "hardware": "the machines",
    "versions": "the versions of the libraries",
    "test_set_unused": "whether no decision of a search or of a selection saw the test images",
    "failed_runs_named": "whether runs that failed are named; None if none failed",
}
"""The facts that ``fill_in`` knows, and what each means."""

_LEAST = {"runs_per_variant": 2}
"""Numbers below these are a no."""


class Item(NamedTuple):
    """A question, and the facts that answer it: yes if all are true."""

    question: str
    facts: tuple[str, ...]


class FilledItem(NamedTuple):
    """A question with its answer, and the facts that it rests on."""

    item: Item
    answer: Answer
    evidence: str


CHECKLIST: tuple[Item, ...] = (
    Item("Can others get the code that trains the final architectures?", ("training_code",)),
    Item("Can others get the code of the search space?", ("space_code",)),
    Item("Are settings and seeds of the final training given?", ("training_settings", "training_seeds")),
    Item("Can others get the code of the search methods?", ("search_code",)),
    Item("Are settings and seeds of the searches given?", ("search_settings", "search_seeds")),
    Item(
        "Do all methods share one benchmark: data and split, space, and training of what they find?",
        ("same_space", "same_data_and_split", "same_training"),
    ),
    Item(
        "Are machines, library versions and budgets equal, so that only the methods differ?",
        ("same_hardware", "same_versions", "same_budget"),
    ),
    Item("Do ablations show which part of a method matters?", ("ablations",)),
    Item("Is every method evaluated in the same way, on the same seeds?", ("same_training", "same_seeds")),
    Item("Are results compared over time, not only at the end?", ("curves",)),
    Item("Is random search in the same space among the methods?", ("random_search",)),
    Item("Is every method run several times, with its seeds given?", ("runs_per_variant", "search_seeds")),
    Item("Does a tabular or surrogate benchmark deepen the comparison?", ("tabular_benchmark",)),
    Item("Is it said how settings were tuned, and what that cost?", ("tuning", "tuning_cost")),
    Item("Is the time of the whole procedure given, not of the search alone?", ("total_time",)),
    Item(
        "Are all details of the experiments given: machines, versions, settings?",
        ("hardware", "versions", "search_settings"),
    ),
    Item("Did no search and no selection see the test images?", ("test_set_unused",)),
    Item("Are failed runs counted and named?", ("failed_runs_named",)),
)


def fill_in(facts: Mapping[str, Fact]) -> list[FilledItem]:
    """Answer every question of the checklist from ``facts``, whose keys are those of ``FACTS``.

    An absent fact is not known. A question is answered with no if one of its facts is a no, and with not known if one
    of the others is not known. Facts that do not apply are passed over.

    >>> filled = {one.item.question: one for one in fill_in({"random_search": "random-search", "curves": False})}
    >>> filled["Is random search in the same space among the methods?"][1:]
    ('yes', 'random search: random-search')
    """
    for name in facts:
        look_up("fact", name, FACTS)
    return [FilledItem(item, _answer(item, facts), _evidence(item, facts)) for item in CHECKLIST]


def _answer(item: Item, facts: Mapping[str, Fact]) -> Answer:
    answers = {_one_answer(name, facts) for name in item.facts}
    order: tuple[Answer, ...] = ("no", "not known", "yes", "not applicable")
    return next(answer for answer in order if answer in answers)


def _one_answer(name: str, facts: Mapping[str, Fact]) -> Answer:
    if name not in facts:
        return "not known"
    value = facts[name]
    if value is None:
        return "not applicable"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "yes" if value > 0 and value >= _LEAST.get(name, 0) else "no"
    return "yes" if value else "no"


def _evidence(item: Item, facts: Mapping[str, Fact]) -> str:
    known = [name for name in item.facts if facts.get(name) is not None]
    return "; ".join(f"{name.replace('_', ' ')}: {_shown(facts[name])}" for name in known)


def _shown(value: Fact) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "none"
