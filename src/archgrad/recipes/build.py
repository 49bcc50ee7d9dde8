"""Gives a method its published settings, and lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from archgrad.method.bundle import Method
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS, knobs_of, with_settings, without_none
from archgrad.recipes.settings import OURS, WEIGHT_SOURCES, Setting, declared
from archgrad.regularizers import name_of
from archgrad.spaces import SearchSpace
from archgrad.training.weight_training import NETWORK_ONLY, WeightTraining

__all__ = ["listed", "parts_of", "published"]


def published(method: Method, space: SearchSpace | str, recipe: str | None = None) -> Method:
    """Return a method with all settings published for its recipe, or for another one, in a space."""
    settings = declared(recipe or method.name, space)
    parts: dict[str, Any] = {
        name: _set(part, name, settings)
        for name in (*PARTS, *OPTIONAL_PARTS)
        if (part := getattr(method, name)) is not None
    }
    regularizers = tuple(_set(part, name_of(part) or "", settings) for part in method.regularizers)
    own = {"recipe_optimizer": parts["arch_optimizer"], "weights": _weights(settings)}
    return replace(method, **parts, regularizers=regularizers, **own)


def _set(part: Any, name: str, settings: Mapping[str, Setting]) -> Any:
    """Return a part with the published values of its knobs."""
    own = {knob: settings[f"{name}.{knob}"].value for knob in knobs_of(part) if f"{name}.{knob}" in settings}
    return with_settings(part, {knob: without_none(value) for knob, value in own.items()}, name) if own else part


def _weights(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the recipe's weight-training settings; the others come from the space."""
    knobs = {knob.name: f"weights.{knob.name}" for knob in fields(WeightTraining)}
    return {knob: settings[path].value for knob, path in knobs.items() if path in settings}


def parts_of(method: Method) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a method with the prefixes of their knobs."""
    for name in (*PARTS, *OPTIONAL_PARTS):
        if (part := getattr(method, name)) is not None:
            yield name, part
    for part in method.regularizers:
        yield name_of(part) or type(part).__name__, part


def listed(method: Method, space: SearchSpace) -> list[Setting]:
    """Return every setting of a recipe in a space, as the method has it, with its source."""
    known, weights = declared(method.name, space), WEIGHT_SOURCES.get(space.family, {})

    def source(path: str, value: Any, otherwise: str = OURS) -> str:
        setting = known.get(path)
        return setting.source if setting is not None and setting.value == value else otherwise

    rows = [
        Setting(f"{name}.{knob}", value, source(f"{name}.{knob}", value))
        for name, part in parts_of(method)
        for knob, value in knobs_of(part).items()
    ]
    training = method.trained(space.weights)
    rows += [
        Setting(f"weights.{knob}", value, source(f"weights.{knob}", value, weights.get(knob, weights.get("any", OURS))))
        for knob, value in knobs_of(training).items()
        if value not in (None, ()) and knob not in NETWORK_ONLY
    ]
    return [*rows, *(known[path] for path in known if path.startswith(("space.", "augmentation.", "data.")))]
