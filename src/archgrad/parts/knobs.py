"""Reading and changing the knobs of frozen dataclasses by name: ``arch_optimizer.lr=0.001``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_type_hints

from archgrad.errors import UserError, unknown
from archgrad.parts.fields import read_value
from archgrad.parts.registry import construct

__all__ = ["OPTIONAL_PARTS", "PARTS", "knobs_of", "parse_setting", "with_settings", "without_none"]

PARTS = ("relaxation", "hypergradient", "arch_optimizer", "discretizer", "schedule", "supernet")
"""The parts that every method has, by the names that their knobs begin with."""
OPTIONAL_PARTS = ("stop", "progressive")
"""The parts that a method may lack."""

Part = TypeVar("Part")


def knobs_of(part: Any) -> dict[str, Any]:
    """Return a part's knobs and their values: the fields of its constructor.

    A field that only a program can set says ``knob: False`` in its metadata.

    >>> from archgrad.arch_optimizers import Adam
    >>> knobs_of(Adam())["lr"]
    0.0003
    """
    knobs = [knob.name for knob in fields(part) if knob.init and knob.metadata.get("knob", True)]
    return {name: getattr(part, name) for name in knobs}


def with_settings(part: Part, settings: Mapping[str, Any], name: str) -> Part:
    """Return ``part`` with new values of some knobs, given as text or as TOML values.

    >>> from archgrad.arch_optimizers import Adam
    >>> with_settings(Adam(), {"lr": "0.01", "betas": "0.9,0.99"}, "arch_optimizer").betas
    (0.9, 0.99)
    """
    if not settings:
        return part
    known = sorted(knobs_of(part)) if is_dataclass(part) else []
    try:
        hints = get_type_hints(type(part), include_extras=True)
    except Exception as error:
        raise UserError(
            f"the settings of {name} cannot be read, because the types of {type(part).__name__} are not known "
            f"({error}); import them at the top of its module."
        ) from error
    values = {}
    for knob, value in settings.items():
        if not known:
            raise UserError(f"{name}.{knob} cannot be set: {type(part).__name__} has no knobs.")
        if knob not in known:
            raise unknown(f"knob of {name} ({type(part).__name__}):", knob, known)
        values[knob] = read_value(f"{name}.{knob}", value, hints[knob])
    return construct(name, lambda: replace(part, **values))  # type: ignore[type-var]


def without_none(value: Any) -> Any:
    """Return a value with the word "none" in place of None, as the command line and TOML write it.

    >>> without_none((5, None))
    (5, 'none')
    """
    return "none" if value is None else tuple(map(without_none, value)) if isinstance(value, tuple) else value


def parse_setting(text: str) -> tuple[str, str]:
    """Split ``part.knob=value``; a part that is an option may be written as the option is.

    >>> parse_setting("weights.lr=0.1"), parse_setting("arch-optimizer.lr=0.1")
    (('weights.lr', '0.1'), ('arch_optimizer.lr', '0.1'))
    """
    path, equals, value = text.partition("=")
    part, _, knob = path.rpartition(".")
    if not equals or not part or not knob or ("." in part and ":" not in part):
        raise UserError(f"the setting {text!r} is not of the form part.knob=value, such as arch_optimizer.lr=0.001.")
    option = part.strip().replace("-", "_")
    return f"{option if option in PARTS else part.strip()}.{knob.strip()}", value.strip()
