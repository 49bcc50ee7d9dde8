"""Turning knobs by name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from archgrad.errors import UserError
from archgrad.knobs import knobs_of, parse_setting, with_settings


@dataclass(frozen=True)
class Part:
    count: int = 1
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
