from __future__ import annotations

import pytest

from archgrad.errors import ArchgradError, DivergedError, UserError, reason, unknown


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


@pytest.mark.parametrize("kind", [UserError, DivergedError])
def test_every_message_is_safe_to_print(kind: type[Exception]) -> None:
    assert str(kind("the run \x1b[31mred\x07 of \udcff")) == r"the run \x1b[31mred\x07 of \udcff"
    assert str(kind("two\nlines\tand é漢")) == "two\nlines\tand é漢"


@pytest.mark.parametrize("value", ["a" * 10**5, "a b " * 10**4, '"' * 10**4])
def test_no_message_echoes_a_long_value(value: str) -> None:
    message = str(UserError(f"space is {value!r}; it must be a name."))
    assert len(message) < 250
    assert message.endswith("…; it must be a name.")


def test_long_sentences_with_apostrophes_stay_whole() -> None:
    message = f"the run's folder {'is here and ' * 30} the method's name; 'a' {'and so on ' * 30} 'b'."
    assert str(UserError(message)) == message


@pytest.mark.parametrize(
    ("error", "typed", "expected"),
    [
        (OSError("no such\nfile. "), False, "no such"),
        (OSError("no such file. "), True, "OSError: no such file"),
        (RuntimeError(), False, "RuntimeError"),
        (ValueError("x" * 999), False, "x" * 120),
    ],
)
def test_the_reason_is_one_short_line(error: Exception, typed: bool, expected: str) -> None:
    assert reason(error, typed) == expected
