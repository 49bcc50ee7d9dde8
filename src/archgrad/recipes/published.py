"""The published settings, as ``published.toml`` lists them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["BASES", "PUBLISHED_IN", "SETTINGS", "WEIGHT_SOURCES"]

Settings = dict[str, tuple[Any, str]]

_CONTENT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_RECIPES: dict[str, dict[str, Any]] = _CONTENT["recipes"]


def _value(value: Any) -> Any:
    return None if value == "unset" else tuple(map(_value, value)) if isinstance(value, list) else value


def _settings(by_source: dict[str, dict[str, dict[str, Any]]]) -> Settings:
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
    name: {family: _settings(own) for family, own in recipe.items() if isinstance(own, dict)}
    for name, recipe in _RECIPES.items()
}
"""``SETTINGS[recipe][family]`` maps a knob to its value and source; the family "any" stands for all spaces.

The name of a space in the place of a family stands for that space alone."""
