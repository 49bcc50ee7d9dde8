"""Turning knobs by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from archgrad.cli.listing import FAMILIES, shown
from archgrad.errors import UserError
from archgrad.parts.fields import Count
from archgrad.parts.knobs import knobs_of, parse_setting, with_settings
from archgrad.parts.registry import Registry


@dataclass(frozen=True)
class Part:
    count: Count = 1
    rate: float = 0.5
    flag: bool = False
    name: str = "x"
    pair: tuple[float, float] = (0.0, 1.0)
    names: tuple[str, ...] = ()
    maybe: int | None = None


@pytest.mark.parametrize(
    ("knob", "given", "value"),
    [
        ("count", "3", 3),
        ("count", 3, 3),
        ("count", 3.0, 3),
        ("rate", "1e-3", 1e-3),
        ("rate", 2, 2.0),
        ("flag", "yes", True),
        ("flag", False, False),
        ("name", "y", "y"),
        ("pair", "0.1, 0.2", (0.1, 0.2)),
        ("pair", [1, 2], (1.0, 2.0)),
        ("names", "a,b", ("a", "b")),
        ("names", "", ()),
        ("names", "a", ("a",)),
        ("maybe", "none", None),
        ("maybe", "4", 4),
    ],
)
def test_values_become_what_the_knob_holds(knob, given, value):
    assert getattr(with_settings(Part(), {knob: given}, "part"), knob) == value


@pytest.mark.parametrize(
    ("knob", "given"),
    [
        ("count", "x"),
        ("count", 1.5),
        ("count", True),
        ("rate", "fast"),
        ("rate", True),
        ("flag", "maybe"),
        ("name", 3),
        ("pair", "1"),
        ("pair", "1,x"),
        ("maybe", "x"),
    ],
)
def test_wrong_values_name_the_knob(knob, given):
    with pytest.raises(UserError, match=f"part.{knob}"):
        with_settings(Part(), {knob: given}, "part")


def test_unknown_knobs_name_the_nearest():
    with pytest.raises(UserError, match="did you mean 'count'"):
        with_settings(Part(), {"counts": 1}, "part")


def test_knobs_are_listed():
    assert knobs_of(Part())["rate"] == 0.5


@pytest.mark.parametrize("text", ["lr", "lr=1", "a.b.c=1", ".x=1", "a.=1", "=1"])
def test_malformed_settings(text):
    with pytest.raises(UserError, match=r"part\.knob=value"):
        parse_setting(text)


@dataclass(frozen=True)
class Odd:
    table: dict[str, int] = field(default_factory=dict)
    maybe: dict[str, int] | None = None
    number: int = 1

    def __post_init__(self) -> None:
        if self.number == 7:
            raise RuntimeError("no sevens")


def test_what_no_text_can_say_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"odd.table cannot be set by a name and a value; set it in Python"):
        with_settings(Odd(), {"table": "x"}, "odd")
    with pytest.raises(UserError, match=r"odd.maybe is 'x'; it must be .*dict.* or None"):
        with_settings(Odd(), {"maybe": "x"}, "odd")
    with pytest.raises(UserError, match=r"odd cannot be made \(RuntimeError: no sevens\)"):
        with_settings(Odd(), {"number": 7}, "odd")


@pytest.mark.parametrize("family", [family for family, _ in FAMILIES.values()], ids=lambda one: one.family)
def test_every_listed_knob_is_accepted_as_it_is_listed(family: Registry[Any]) -> None:
    """No list and no suggestion names a knob that is then refused."""
    for name in family:
        part = family.create(name)
        for knob, value in knobs_of(part).items():
            assert with_settings(part, {knob: shown(value)}, name) == part
