from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, Protocol

import pytest

from archgrad.errors import UserError
from archgrad.parts.fields import Count, NonNegative, Positive, Probability, Range, check_fields, check_value, checked

Words = NewType("Words", dict[str, str])


class Quiet(Protocol):
    def speak(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "good", "bad", "expected"),
    [
        (int, [0, -5, 10**30], [True, 1.0, "1", None], "a whole number"),
        (float, [0, 1, -2.5], [True, math.nan, math.inf, 10**400, "1", 1j], "a finite number"),
        (bool, [True, False], [1, 0, None, "yes"], "true or false"),
        (str, ["", "a"], [b"a", 3], "text"),
        (None, [None], [0, ""], "None"),
        (Count, [1, 1_000_000], [0, 1_000_001, True], "at (least 1|most 1,000,000)"),
        (Positive, [1e-9, 3], [0, -1.0, math.nan], "a number greater than 0"),
        (NonNegative, [0, 0.0], [-1e-9], "a number of 0 or more"),
        (Probability, [0, 0.999], [1, -0.1], "a number from 0 to less than 1"),
        (Annotated[float, Range(0, 1, above=True)], [0.1, 1], [0, 1.1], "greater than 0 and at most 1"),
        (Literal["a", "b"], ["a"], ["c", 1, None], "a, b|'a' or 'b'"),
        (Literal[1], [1], [True, 1.0, 2], "1"),
        (int | None, [3, None], ["3"], "a whole number or None"),
        (tuple[int, ...], [(), (1, 2)], [[1], (1.5,), 1], "a tuple of any number of values, each a whole number"),
        (tuple[float, float], [(1, 2.0)], [(1,), (1, 2, 3), (1, math.nan)], "of 2 values, each a finite number"),
        (
            Mapping[str, int],
            [{}, {"a": 1}],
            [{1: 1}, {"a": "b"}, [("a", 1)]],
            "a dictionary, each key text and each value a whole",
        ),
        (Sequence[str], [[], ("a",)], [[1], 3], "of type Sequence"),
        (Words, [{"a": "b"}], [{"a": 1}, 3], "of type"),
        (Callable[[int], int], [abs], [3], "of type Callable"),
        (Range, [Range()], ["range"], "of type Range"),
        (Any, [None, 3, object()], [], ""),
        (Quiet, [3], [], ""),
        ("Unknown", [3], [], ""),
    ],
)
def test_values_fit_their_types_or_are_told_what_they_must_be(
    kind: Any, good: list[Any], bad: list[Any], expected: str
) -> None:
    for value in good:
        check_value("knob", value, kind)
    for value in bad:
        with pytest.raises(UserError, match=rf"knob.*({expected})"):
            check_value("knob", value, kind)


@dataclass(frozen=True)
class Part:
    steps: Count = 0  # a default is allowed, whatever it is
    name: str = field(default_factory=str)

    def __post_init__(self) -> None:
        check_fields(self, "part.{}")


def test_defaults_are_allowed_and_fields_are_named() -> None:
    Part()
    with pytest.raises(UserError, match=r"part\.steps is -1; it must be at least 1 and a whole number"):
        Part(-1)
    with pytest.raises(UserError, match=r"part\.name is 3; it must be text"):
        Part(1, 3)  # type: ignore[arg-type]


def test_annotations_that_cannot_be_resolved_are_not_checked() -> None:
    @dataclass
    class Odd:
        value: Nowhere  # type: ignore[name-defined] # noqa: F821

    check_fields(Odd(3))
    check_fields(object())


def test_values_that_cannot_be_printed() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError

    for value in (Mute(), 10**5000):
        with pytest.raises(UserError, match="that cannot be printed; it must be text"):
            check_value("knob", value, str)


def test_functions_check_their_arguments() -> None:
    @checked
    def repeat(text: str, times: Count = 2, *, between: str = "") -> str:
        """Repeat a text."""
        return between.join([text] * times)

    assert repeat("a", 3, between="-") == "a-a-a"
    assert (repeat.__name__, repeat.__doc__) == ("repeat", "Repeat a text.")
    with pytest.raises(UserError, match="times is 0"):
        repeat("a", 0)
    with pytest.raises(UserError, match="between is None; it must be text"):
        repeat("a", between=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'ties'"):
        repeat("a", ties=3)  # type: ignore[call-arg]
