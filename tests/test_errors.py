from __future__ import annotations

import pytest

from archgrad.errors import ArchgradError, DivergedError, UserError, unknown


@pytest.mark.parametrize(("kind", "builtin"), [(UserError, ValueError), (DivergedError, ArithmeticError)])
def test_errors_are_archgrads_own_and_of_a_builtin_kind(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, ArchgradError)
    assert issubclass(kind, builtin)


def test_unknown_names_the_value_the_nearest_and_all_allowed() -> None:
    error = unknown("space", "dart", iter(["darts", "nasbench201"]))
    assert isinstance(error, UserError)
    assert str(error) == "unknown space 'dart'; did you mean 'darts'? Choose from: darts, nasbench201"


def test_unknown_guesses_nothing_when_nothing_is_near() -> None:
    assert str(unknown("space", "qqq", ["darts"])) == "unknown space 'qqq'. Choose from: darts"


def test_unknown_with_nothing_allowed_is_still_a_sentence() -> None:
    assert str(unknown("block", "x", [])) == "unknown block 'x'; there is nothing to choose from."


def test_unknown_shortens_a_huge_value() -> None:
    assert len(str(unknown("space", "x" * 10**6, ["darts"]))) < 300


def test_unknown_shows_control_characters_escaped() -> None:
    assert "\x1b" not in str(unknown("space", "\x1b[2J", ["darts"]))
