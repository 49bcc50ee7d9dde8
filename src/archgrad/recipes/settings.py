"""Settings of published methods, each with its value and its source, as ``published.toml`` lists them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archgrad.parts.fields import checked
from archgrad.spaces import SPACES, SearchSpace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "BASES", "FAMILIES", "OURS", "PUBLISHED_IN", "SETTINGS", "WEIGHT_SOURCES", "Setting", "chain_of", "declared",
    "family_of", "sized",
]  # fmt: skip

Settings = dict[str, tuple[Any, str]]

_CONTENT = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
_RECIPES: dict[str, dict[str, Any]] = _CONTENT["recipes"]


def _value(value: Any) -> Any:
    return None if value == "unset" else tuple(map(_value, value)) if isinstance(value, list) else value


def _by_path(by_source: dict[str, dict[str, dict[str, Any]]]) -> Settings:
    return {
        f"{part}.{knob}": (_value(value), source)
        for source, parts in by_source.items()
        for part, knobs in parts.items()
        for knob, value in knobs.items()
    }


WEIGHT_SOURCES: dict[str, dict[str, str]] = _CONTENT["weights"]
"""The sources of a space's own settings for training the weights: of a knob, or of "any" other."""
BASES = {name: tuple(recipe["inherits"]) for name, recipe in _RECIPES.items() if "inherits" in recipe}
"""The recipes from which a recipe takes the settings that it does not name."""
PUBLISHED_IN = {name: tuple(recipe["published_in"]) for name, recipe in _RECIPES.items() if "published_in" in recipe}
"""The families of spaces that a recipe's settings "any" are published for; elsewhere they are ours."""
SETTINGS: dict[str, dict[str, Settings]] = {
    name: {family: _by_path(own) for family, own in recipe.items() if isinstance(own, dict)}
    for name, recipe in _RECIPES.items()
}
"""``SETTINGS[recipe][family]`` maps a knob to its value and source; the family "any" stands for all spaces.

The name of a space in the place of a family stands for that space alone."""

OURS = "ours"
"""The source of unpublished settings."""

FAMILIES: dict[str, str] = {
    "nasbench201": "NAS-Bench-201",
    "darts": "DARTS and S1 to S4",
    "amended": "Amended-DARTS, A1 and A2",
    "nasbench1shot1": "NAS-Bench-1Shot1",
}
"""Families of spaces that share the settings of methods, with their full names."""

_NEAREST: dict[str, tuple[str, ...]] = {
    "nasbench201": ("darts", "nasbench1shot1"),
    "darts": ("nasbench201", "nasbench1shot1"),
    "amended": ("darts", "nasbench201"),
    "nasbench1shot1": ("darts", "nasbench201"),
    "own": ("nasbench201", "darts"),
}
"""Families whose settings replace those of a family for which a method was not published, nearest first."""

_PYTORCH = "PyTorch"
_OF_THE_RUN = ("weights.", "space.", "augmentation.", "data.")
"""Prefixes of settings that are never taken from another family."""


class Setting(NamedTuple):
    """A knob by its path, as ``--set`` takes it, its value, and the paper or code that gives it."""

    path: str
    value: Any
    source: str


@checked
def family_of(space: SearchSpace | str) -> str:
    """Return the family of a space, given as an object, by its name, or by the name of the family.

    >>> family_of("s3"), family_of("amended-a1")
    ('darts', 'amended')
    """
    if isinstance(space, SearchSpace):
        return space.family
    if space in FAMILIES or space == "own":
        return space
    return SPACES.constructor(space)().family


@checked
def chain_of(recipe: str) -> tuple[str, ...]:
    """Return a recipe and all recipes from which it inherits settings, nearest first.

    >>> chain_of("lambda-sdarts-rs")
    ('lambda-sdarts-rs', 'sdarts-rs', 'darts', 'lambda-darts')
    """
    bases = [name for base in BASES.get(recipe, ()) for name in chain_of(base)]
    return tuple(dict.fromkeys((recipe, *bases)))


@checked
def declared(recipe: str, space: SearchSpace | str) -> dict[str, Setting]:
    """Return by path the settings of a recipe for a space; missing ones come from other families of spaces.

    Settings of weight training, space and data are never taken from another family.
    """
    family, found = family_of(space), dict[str, Setting]()
    alone = space.name if isinstance(space, SearchSpace) else space
    for name in chain_of(recipe):
        for setting in (*_settings(name, alone), *_settings(name, family), *_settings_anywhere(name, family)):
            found.setdefault(setting.path, setting)
    for name in chain_of(recipe):
        for other in _NEAREST[family]:
            for setting in _settings(name, other):
                if not setting.path.startswith(_OF_THE_RUN):
                    found.setdefault(setting.path, _elsewhere(setting, [other]))
    return found


@checked
def sized(recipe: str, space: SearchSpace) -> dict[str, Any]:
    """Return the published fields of a space for a recipe, by name; it excludes only what the space offers.

    >>> sized("gaea", SPACES.constructor("nasbench201")())
    {'exclude': ('none',)}
    """
    settings = [one for one in declared(recipe, space).values() if one.path.startswith("space.")]
    wanted = {setting.path.removeprefix("space."): setting.value for setting in settings}
    if "exclude" in wanted:
        wanted["exclude"] = tuple(name for name in wanted["exclude"] if name in space.exclude or space.offers(name))
    return {space.depth_knob if name == "cells" else name: value for name, value in wanted.items()}


def _settings_anywhere(recipe: str, family: str) -> Iterator[Setting]:
    """Yield the settings of a recipe for all spaces; where it was not published, the source is ours."""
    spaces = PUBLISHED_IN.get(recipe, ())
    for setting in _settings(recipe, "any"):
        known = family in spaces or not spaces or setting.source.startswith((OURS, _PYTORCH))
        yield setting if known else _elsewhere(setting, spaces)


def _elsewhere(setting: Setting, families: Sequence[str]) -> Setting:
    names = ", ".join(FAMILIES[family] for family in families)
    return setting._replace(source=f"{OURS}; {names}: {setting.source}")


def _settings(recipe: str, family: str) -> Iterator[Setting]:
    own: Mapping[str, tuple[Any, str]] = SETTINGS.get(recipe, {}).get(family, {})
    return (Setting(path, value, source) for path, (value, source) in own.items())
