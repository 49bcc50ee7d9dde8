"""Parts as nested plain data: what a run directory and a checkpoint say of a search, field by field."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import FunctionType
from typing import Any

from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.registry import class_path

__all__ = ["differences", "digest", "to_data"]

PART = "part"
"""The key under which the data of a part names its class."""


def to_data(value: Any, *, sparse: bool = False) -> Any:
    """Return a value as JSON can hold it: a part becomes its class, as ``module:Name``, and its fields by name.

    With ``sparse``, fields at their defaults are left out.

    >>> from archgrad.arch_optimizers import ExponentiatedGradient
    >>> to_data(ExponentiatedGradient(lr=0.5), sparse=True)
    {'part': 'archgrad.arch_optimizers:ExponentiatedGradient', 'lr': 0.5}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): to_data(value[key], sparse=sparse) for key in sorted(value)}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [to_data(item, sparse=sparse) for item in items]
    if isinstance(value, Tensor):
        return {"tensor": list(value.shape), "digest": hashlib.sha256(value.cpu().numpy().tobytes()).hexdigest()[:16]}
    if isinstance(value, type | FunctionType):
        return f"{value.__module__}:{value.__qualname__}"
    return {PART: class_path(type(value))} | {
        name: to_data(one, sparse=sparse) for name, one in _settings(value, sparse).items()
    }


def differences(saved: Any, wanted: Any, least: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values wherever the saved data of a search differs from the wanted one.

    ``least`` is the wanted data without fields at their defaults: those may be missing from what an earlier version
    has saved, because it did not have them.

    >>> list(differences({"lr": 0.1}, {"lr": 0.2, "new": 1}, {"lr": 0.2}))
    [('lr', 0.1, 0.2)]
    """
    if isinstance(saved, dict) and isinstance(wanted, dict):
        required = least if isinstance(least, dict) else {}
        for key in [*wanted, *(key for key in saved if key not in wanted)]:
            place = f"{path}.{key}" if path else str(key)
            if key in saved and key in wanted:
                yield from differences(saved[key], wanted[key], required.get(key, {}), place)
            elif key in saved or key in required:
                yield place, saved.get(key), wanted.get(key)
    elif isinstance(saved, list) and isinstance(wanted, list) and len(saved) == len(wanted):
        parts = least if isinstance(least, list) and len(least) == len(wanted) else [{}] * len(wanted)
        for number, (one, other, least_one) in enumerate(zip(saved, wanted, parts, strict=True)):
            yield from differences(one, other, least_one, f"{path}[{number}]")
    elif saved != wanted and (saved == saved or wanted == wanted):  # two NaN are the same setting
        yield path, saved, wanted


def digest(data: Any) -> str:
    """Return a hash of the data: 16 hexadecimal digits.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(data, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _settings(value: Any, sparse: bool) -> dict[str, Any]:
    """Return what a part was made with: the fields of a dataclass, or else the attributes of the object."""
    if is_dataclass(value):
        compared = [one for one in fields(value) if one.init and one.compare]
        return {one.name: getattr(value, one.name) for one in compared if not (sparse and _at_default(one, value))}
    if hasattr(value, "__dict__"):
        return dict(vars(value))
    raise UserError(
        f"{type(value).__name__} cannot be written to a run directory, because its settings cannot be read; make it a "
        f"dataclass, or search without out."
    )


def _at_default(one: Field[Any], value: Any) -> bool:
    default = one.default if one.default_factory is MISSING else one.default_factory()
    return default is not MISSING and bool(getattr(value, one.name) == default)
