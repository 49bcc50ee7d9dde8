from __future__ import annotations

import pytest

from archgrad.studies.checklist import CHECKLIST, ChecklistItem, Fact, fill_in


def answer_about(fact: str, facts: dict[str, Fact]) -> ChecklistItem:
    (found,) = [one for one in fill_in(facts) if CHECKLIST[one.question][0] == fact]
    return found


def test_nothing_is_known_of_no_facts() -> None:
    assert {one.answer for one in fill_in({})} == {"not known"}
    assert {one.evidence for one in fill_in({})} == {""}


def test_a_question_is_a_yes_if_all_its_facts_are() -> None:
    facts: dict[str, Fact] = {"tuning": "grid of 4", "tuning_cost": "2 GPU hours"}
    assert answer_about("tuning", facts)[1:] == ("yes", "tuning: grid of 4; tuning cost: 2 GPU hours")
    assert answer_about("tuning", {"tuning": "grid of 4"}).answer == "not known"
    assert answer_about("tuning", {"tuning": "grid of 4", "tuning_cost": False}).answer == "no"
    assert answer_about("tuning", {"tuning": None, "tuning_cost": None}).answer == "not applicable"


@pytest.mark.parametrize(
    ("value", "answer"),
    [("", "no"), ((), "no"), (False, "no"), (("a",), "yes"), (True, "yes"), (None, "not applicable")],
)
def test_nothing_is_a_no(value: Fact, answer: str) -> None:
    assert answer_about("ablations", {"ablations": value}).answer == answer


def test_the_evidence_is_said_in_words_and_only_where_there_is_some() -> None:
    facts: dict[str, Fact] = {"random_search": "", "training_code": None}
    assert answer_about("random_search", facts)[1:] == ("no", "random search: none")
    assert answer_about("training_code", facts)[1:] == ("not applicable", "")


def test_one_run_is_not_several() -> None:
    seeds: dict[str, Fact] = {"search_seeds": (0, 1)}
    assert answer_about("runs_per_variant", {"runs_per_variant": 1, **seeds}).answer == "no"
    assert answer_about("runs_per_variant", {"runs_per_variant": 2, **seeds})[1:] == (
        "yes",
        "runs per variant: 2; search seeds: 0, 1",
    )
    assert answer_about("total_time", {"total_time": 0.5}).answer == "yes"
