"""What ``archgrad list`` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archgrad import data, recipes, spaces
from archgrad.config import PARTS
from archgrad.knobs import knobs_of

__all__ = ["LISTS"]


def _first_line(thing: Any) -> str:
    return str(thing.__doc__ or "").strip().splitlines()[0]


def _knobs(part: Any, prefix: str) -> str:
    return ", ".join(f"{prefix}{name}={_shown(value)}" for name, value in knobs_of(part).items())


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def list_spaces() -> str:
    """Describe every space and its knobs."""
    lines = []
    for name in spaces.SPACES:
        space = spaces.named(name)()
        lines += [f"{name}: {_first_line(type(space))}", f"    depth (--cells) is {space.depth_knob}"]
        lines += [f"    {_knobs(space, 'space.')}", f"    {_knobs(space.training, 'weights.')}"]
    return "\n".join(lines)


def list_methods() -> str:
    """Describe every recipe, its parts and their knobs."""
    lines = []
    for name, recipe in recipes.RECIPES.items():
        method = recipe()
        lines.append(f"{name}: {_first_line(recipe)}")
        for part in PARTS:
            member = getattr(method, part)
            lines.append(f"    {part}: {type(member).__name__}  {_knobs(member, f'{part}.')}".rstrip())
    return "\n".join(lines)


def list_data() -> str:
    """Describe every source of data."""
    width = max(map(len, data.SOURCES))
    return "\n".join(f"{name:<{width}}  {description}" for name, description in data.SOURCES.items())


LISTS: dict[str, Callable[[], str]] = {"spaces": list_spaces, "methods": list_methods, "data": list_data}
