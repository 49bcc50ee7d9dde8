"""The texts that ``archgrad list`` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from archgrad import (
    arch_optimizers,
    callbacks,
    data,
    discretizers,
    hypergradients,
    recipes,
    regularizers,
    relaxations,
    spaces,
)
from archgrad.data.catalog import source_names
from archgrad.knobs import OPTIONAL_PARTS, PARTS, knobs_of
from archgrad.registry import Registry
from archgrad.supernet import SupernetOptions

__all__ = ["LISTS", "list_settings"]


def _first_line(thing: Any) -> str:
    return str(thing.__doc__ or "").strip().splitlines()[0]


def _settings(knobs: Mapping[str, Any], prefix: str) -> list[str]:
    return [f"{prefix}{name}={_shown(value)}" for name, value in knobs.items()]


def _changed(knobs: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in knobs.items() if value != usual[name]}


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def list_spaces() -> str:
    """Describe every space and its knobs."""
    lines = []
    for name in spaces.SPACES:
        space = spaces.SPACES.constructor(name)()
        shown = [
            f"--cells is {space.depth_knob}",
            *_settings(knobs_of(space), "space."),
            *_settings(_changed(knobs_of(space.supernet_defaults), knobs_of(SupernetOptions())), "supernet."),
            *_settings(knobs_of(space.weights), "weights."),
        ]
        lines += [
            f"{name}: {_first_line(type(space))}",
            *textwrap.wrap(", ".join(shown), 100, initial_indent="    ", subsequent_indent="    "),
        ]
    return "\n".join(lines)


def list_methods() -> str:
    """Describe every recipe, its parts and their knobs."""
    lines = []
    for name, recipe in recipes.RECIPES.items():
        method = recipe()
        lines.append(f"{name}: {_first_line(recipe)}")
        for part in PARTS:
            member = getattr(method, part)
            settings = ", ".join(_settings(knobs_of(member), f"{part}."))
            lines.append(f"    {part}: {type(member).__name__}  {settings}".rstrip())
        for part in OPTIONAL_PARTS:
            if (member := getattr(method, part)) is not None:
                settings = ", ".join(_settings(knobs_of(member), f"{part}."))
                lines.append(f"    {part}: {type(member).__name__}  {settings}")
        for regularizer in method.regularizers:
            settings = ", ".join(_settings(knobs_of(regularizer), f"{regularizers.name_of(regularizer)}."))
            lines.append(f"    regularizer: {type(regularizer).__name__}  {settings}")
        if method.weights:
            lines.append(f"    weights: {', '.join(_settings(method.weights, 'weights.'))}")
    return "\n".join(lines)


def list_settings(name: str, space: str | None, markdown: bool) -> str:
    """Describe every setting of a recipe, or of all recipes, with its source."""
    from archgrad.cli import settings_table

    if name == "all":
        return (
            settings_table.methods_page()
            if markdown
            else "\n\n".join(settings_table.as_text(recipe, space) for recipe in recipes.RECIPES)
        )
    return settings_table.as_markdown(name) + "\n" if markdown else settings_table.as_text(name, space)


def _list_parts(family: Registry[Any], part: str | None) -> str:
    """Describe every member of a family and its knobs, as ``part.knob``, or ``member.knob`` if ``part`` is None."""
    lines = []
    for name in family:
        member = family.create(name)
        lines.append(f"{name}: {_first_line(type(member))}")
        lines += [f"    {', '.join(_settings(knobs_of(member), f'{part or name}.'))}"] if knobs_of(member) else []
    return "\n".join(lines)


def list_data() -> str:
    """Describe every source of data."""
    sources = source_names()
    width = max(map(len, sources))
    lines = [f"{name:<{width}}  {_first_line(source)}" for name, source in sources.items()]
    knobs = ", ".join(_settings(knobs_of(data.Augmentation()), "augmentation."))
    return "\n".join([*lines, f"knobs (the defaults depend on the data): {knobs}"])


FAMILIES: dict[str, tuple[Registry[Any], str | None]] = {
    "relaxations": (relaxations.RELAXATIONS, "relaxation"),
    "hypergradients": (hypergradients.HYPERGRADIENTS, "hypergradient"),
    "optimizers": (arch_optimizers.ARCH_OPTIMIZERS, "arch_optimizer"),
    "regularizers": (regularizers.REGULARIZERS, None),
    "discretizers": (discretizers.DISCRETIZERS, "discretizer"),
    "callbacks": (callbacks.CALLBACKS, None),
}
"""The families of parts, and the prefix of their knobs; None: the name of the member."""

LISTS: dict[str, Callable[[], str]] = {
    "spaces": list_spaces,
    "methods": list_methods,
    **{name: partial(_list_parts, *family) for name, family in FAMILIES.items()},
    "data": list_data,
}
