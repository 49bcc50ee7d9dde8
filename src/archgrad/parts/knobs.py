"""Reading and changing the knobs of frozen dataclasses by name: ``arch_optimizer.lr=0.001``."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from archgrad.errors import LARGEST_COUNT, UserError, shortened, unknown
from archgrad.parts.registry import construct

__all__ = ["OPTIONAL_PARTS", "PARTS", "knobs_of", "parse_setting", "with_settings", "without_none"]

PARTS = ("relaxation", "hypergradient", "arch_optimizer", "discretizer", "schedule", "supernet")
"""The parts that every method has, by the names that their knobs begin with."""
OPTIONAL_PARTS = ("stop", "progressive")
"""The parts that a method may lack."""

Part = TypeVar("Part")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def knobs_of(part: Any) -> dict[str, Any]:
    """Return a part's knobs and their values.

    >>> from archgrad.arch_optimizers import Adam
    >>> knobs_of(Adam())["lr"]
    0.0003
    """
    return {knob.name: getattr(part, knob.name) for knob in _knobs(part)}


def with_settings(part: Part, settings: Mapping[str, Any], name: str) -> Part:
    """Return ``part`` with new values of some knobs, given as text or as TOML values.

    >>> from archgrad.arch_optimizers import Adam
    >>> with_settings(Adam(), {"lr": "0.01", "betas": "0.9,0.99"}, "arch_optimizer").betas
    (0.9, 0.99)
    """
    if not settings:
        return part
    known = {knob.name for knob in _knobs(part)} if is_dataclass(part) else set()
    hints = _type_hints(part, name)
    values = {}
    for knob, value in settings.items():
        if knob not in known:
            if not known:
                raise UserError(f"{name}.{knob} cannot be set: {type(part).__name__} has no knobs.")
            raise unknown(f"knob of {name} ({type(part).__name__}):", knob, sorted(known))
        values[knob] = _converted(value, hints[knob], f"{name}.{knob}")
    return construct(name, lambda: replace(part, **values))  # type: ignore[type-var]


def _type_hints(part: Any, name: str) -> dict[str, Any]:
    try:
        return get_type_hints(type(part))
    except Exception as error:
        raise UserError(
            f"the settings of {name} cannot be read, because the types of {type(part).__name__} are not known "
            f"({error}); import them at the top of its module."
        ) from error


def without_none(value: Any) -> Any:
    """Return a value with the word "none" in place of None, as the command line and TOML write it.

    >>> without_none((5, None))
    (5, 'none')
    """
    return "none" if value is None else tuple(map(without_none, value)) if isinstance(value, tuple) else value


def parse_setting(text: str) -> tuple[str, str]:
    """Split ``part.knob=value``.

    >>> parse_setting("weights.lr=0.1")
    ('weights.lr', '0.1')
    """
    path, equals, value = text.partition("=")
    part, _, knob = path.rpartition(".")
    if not equals or not part or not knob or ("." in part and ":" not in part):
        raise UserError(f"the setting {text!r} is not of the form part.knob=value, such as arch_optimizer.lr=0.001.")
    return path.strip(), value.strip()


def _knobs(part: Any) -> list[Field[Any]]:
    """Return the fields that are knobs; a field that only a program can set says ``knob: False`` in its metadata."""
    return [knob for knob in fields(part) if knob.init and knob.metadata.get("knob", True)]


def _converted(value: Any, kind: Any, name: str) -> Any:
    """Turn text or a TOML value into the type of a knob."""
    if get_origin(kind) in (Union, types.UnionType):
        return _as_one_of(value, get_args(kind), name)
    if get_origin(kind) is tuple:
        return _as_tuple(value, get_args(kind), name)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise unknown(f"value of {name}:", str(value), get_args(kind))
        return value
    if kind not in _CONVERTERS:
        raise UserError(f"{name} cannot be set by a name and a value; set it in Python.")
    try:
        converted = _CONVERTERS[kind](value)
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{name} is {shortened(value)}; it must be {_NAMES[kind]}.") from error
    if kind is int and converted > LARGEST_COUNT:
        raise UserError(f"{name} is {shortened(converted)}; it must be at most {LARGEST_COUNT:,}.")
    return converted


def _as_one_of(value: Any, kinds: tuple[Any, ...], name: str) -> Any:
    """Convert to the first type that fits; the part itself rejects values that it does not know."""
    if isinstance(value, str) and value.lower() == "none" and types.NoneType in kinds:
        return None
    first, *others = [kind for kind in kinds if kind is not types.NoneType]
    for kind in others:
        with suppress(UserError):
            return _converted(value, first, name)
        first = kind
    return _converted(value, first, name)


def _as_tuple(value: Any, kinds: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [] if value.strip() == "()" else [item.strip() for item in value.split(",") if item.strip()]
    items = value
    if not isinstance(items, list | tuple):
        items = [items]
    if kinds[-1] is Ellipsis:
        return tuple(_converted(item, kinds[0], name) for item in items)
    if len(items) != len(kinds):
        raise UserError(f"{name} is {shortened(value)}; it must be {len(kinds)} values separated by commas.")
    return tuple(_converted(item, kind, name) for item, kind in zip(items, kinds, strict=True))


def _as_bool(value: Any) -> bool:
    text = str(value).lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(value)
    return text in _TRUE


def _as_int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(value)
    return int(value)


def _as_float(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError(value)
    return number


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


_CONVERTERS: dict[Any, Any] = {bool: _as_bool, int: _as_int, float: _as_float, str: _as_text}
_NAMES: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}
