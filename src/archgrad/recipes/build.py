"""Giving a method its published settings, and listing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from archgrad.knobs import knobs_of, turned
from archgrad.method import Method
from archgrad.recipes.settings import OURS, Setting, declared, of_recipe
from archgrad.regularizers import name_of
from archgrad.spaces import SearchSpace
from archgrad.training import WeightTraining

__all__ = ["listed", "parts_of", "published"]

_PARTS = ("relaxation", "hypergradient", "arch_optimizer", "discretizer", "schedule", "supernet", "stop", "progressive")


def published(method: Method, space: SearchSpace | str, recipe: str | None = None) -> Method:
    """Return a method with all settings that are published for the recipe of its name, or another, in a space."""
    settings = of_recipe(recipe or method.name, space)
    parts: dict[str, Any] = {
        name: _set(part, name, settings) for name in _PARTS if (part := getattr(method, name)) is not None
    }
    regularizers = tuple(_set(part, name_of(part) or "", settings) for part in method.regularizers)
    return replace(method, **parts, regularizers=regularizers, training=_training(settings))


def _set(part: Any, name: str, settings: Mapping[str, Setting]) -> Any:
    """Return a part with those of its knobs set that are named."""
    own = {knob: settings[f"{name}.{knob}"].value for knob in knobs_of(part) if f"{name}.{knob}" in settings}
    return turned(part, {knob: _as_text(value) for knob, value in own.items()}, name) if own else part


def _as_text(value: Any) -> Any:
    """None is the word, as on the command line."""
    return "none" if value is None else tuple(map(_as_text, value)) if isinstance(value, tuple) else value


def _training(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return what the recipe says of the weights' training; the space says the rest."""
    knobs = {knob.name: f"weights.{knob.name}" for knob in fields(WeightTraining)}
    return {knob: settings[path].value for knob, path in knobs.items() if path in settings}


def parts_of(method: Method) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a method by the names that their knobs begin with."""
    for name in _PARTS:
        if (part := getattr(method, name)) is not None:
            yield name, part
    for part in method.regularizers:
        yield name_of(part) or type(part).__name__, part


def listed(method: Method, space: SearchSpace) -> list[Setting]:
    """Return every setting of a recipe in a space, with its source, as the method really has it."""
    known = declared(method.name, space)

    def source(path: str, value: Any) -> str:
        setting = known.get(path)
        return setting.source if setting is not None and setting.value == value else OURS

    rows = [
        Setting(f"{name}.{knob}", value, source(f"{name}.{knob}", value))
        for name, part in parts_of(method)
        for knob, value in knobs_of(part).items()
    ]
    training = method.trained(space.training)
    rows += [
        Setting(f"weights.{knob}", value, source(f"weights.{knob}", value))
        for knob, value in knobs_of(training).items()
        if value is not None
    ]
    return [*rows, *(known[path] for path in known if path.startswith(("space.", "augmentation.")))]
