"""Checks of the fields of a dataclass: types by their annotations, ranges by ``Annotated``.

A part states its ranges where it declares its fields, and the base of its family checks them:

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Part:
...     lr: Positive = 0.1
...     steps: Count = 5
...     def __post_init__(self) -> None:
...         check_fields(self)
>>> Part(steps=0)
Traceback (most recent call last):
archgrad.errors.UserError: steps of Part is 0; it must be at least 1 and a whole number.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from archgrad.errors import UserError, shortened, unknown

__all__ = [
    "Count",
    "NonNegative",
    "Positive",
    "Probability",
    "Range",
    "check_fields",
    "check_value",
    "checked",
]


@dataclass(frozen=True)
class Range:
    """The numbers from ``least`` to ``most``, without the first if ``above``, and without the last if ``below``."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: float) -> bool:
        over = value > self.least if self.above else value >= self.least
        return over and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        if self.most == math.inf:
            return f"greater than {self.least:g}" if self.above else f"of {self.least:g} or more"
        first = f"greater than {self.least} and" if self.above else f"from {self.least} to"
        return f"{first} {'less than' if self.below else 'at most'} {self.most}".replace("to at most", "to")


P = ParamSpec("P")
Result = TypeVar("Result")
Test = Callable[[Any], bool]

Positive = Annotated[float, Range(0, above=True)]
NonNegative = Annotated[float, Range(0)]
Probability = Annotated[float, Range(0, 1, below=True)]
"""A dropout probability: at 1, the rescaling 1/(1 − p) has no value."""
Count = Annotated[int, Range(1, 1_000_000)]
"""A number of things; more than a million is a slip of the keyboard."""


def check_fields(part: Any, naming: str = "") -> None:
    """Raise a UserError unless every field has a value of its type and range; a default is always allowed.

    ``naming`` is how a message names a field, with {} in its place, such as "weights.{}".
    """
    for name, default, kind, fits in _checks(type(part)):  # type: ignore[arg-type]
        value = getattr(part, name)
        if value is not default and not fits(value):
            raise _mistake((naming or f"{{}} of {type(part).__name__}").format(name), value, kind)


def check_value(name: str, value: object, kind: Any) -> None:
    """Raise a UserError unless a value is of this type, which may be ``Annotated`` with a :class:`Range`."""
    if not _test(kind)(value):
        raise _mistake(name, value, kind)


def _mistake(name: str, value: object, kind: Any) -> UserError:
    if get_origin(kind) is Literal and isinstance(value, str):
        return unknown(f"value of {name}:", value, get_args(kind))
    return UserError(f"{name} is {shortened(value)}; it must be {_described(kind, value)}.")


def checked(function: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate a public function: it checks its arguments by their annotations, as :func:`check_value` does.

    It takes a few microseconds, so functions that every step of a search calls check what they need themselves.

    >>> @checked
    ... def half(number: Positive) -> float:
    ...     return number / 2
    >>> half("4")
    Traceback (most recent call last):
    archgrad.errors.UserError: number is '4'; it must be a number greater than 0.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **settings: P.kwargs) -> Result:
        hints = _hints(function)
        for name, value in signature.bind(*args, **settings).arguments.items():
            if name in hints and value is not signature.parameters[name].default:
                check_value(name, value, hints[name])
        return function(*args, **settings)

    return call


@lru_cache(maxsize=1024)
def _hints(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class or a function; none if they cannot be resolved."""
    try:
        return get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


@lru_cache(maxsize=256)
def _checks(kind: type) -> tuple[tuple[str, Any, Any, Test], ...]:
    """Return name, default, type and test of every field; none of a class whose annotations cannot be resolved."""
    hints = _hints(kind) if is_dataclass(kind) else {}
    known = [field for field in fields(kind) if field.name in hints] if hints else []
    return tuple((field.name, field.default, hints[field.name], _test(hints[field.name])) for field in known)


@lru_cache(maxsize=1024)
def _test(kind: Any) -> Test:
    """Return what tells whether a value is of this type."""
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        base, ranges = _test(arguments[0]), [one for one in kind.__metadata__ if isinstance(one, Range)]
        return lambda value: base(value) and all(value in one for one in ranges)
    if origin in (Union, types.UnionType):
        tests = [_test(one) for one in arguments]
        return lambda value: any(test(value) for test in tests)
    if origin is Literal:
        return lambda value: any(type(value) is type(one) and value == one for one in arguments)
    if origin is tuple:
        return _tuple_test([_test(one) for one in arguments if one is not Ellipsis], arguments[-1] is Ellipsis)
    if kind is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    found = types.NoneType if kind is None else origin or kind
    if not isinstance(found, type) or found is Any or getattr(found, "_is_protocol", False):
        return lambda value: True  # a type that only a type checker knows
    if found in (dict, Mapping, list, Sequence) and arguments:
        return _collection_test(found, [_test(one) for one in arguments])
    return lambda value: isinstance(value, found)


def _tuple_test(tests: list[Test], repeated: bool) -> Test:
    def fits(value: Any) -> bool:
        if not isinstance(value, tuple) or not (repeated or len(value) == len(tests)):
            return False
        each = tests * len(value) if repeated else tests
        return all(test(one) for test, one in zip(each, value, strict=True))

    return fits


def _collection_test(kind: type, tests: list[Test]) -> Test:
    def fits(value: Any) -> bool:
        if not isinstance(value, kind):
            return False
        parts: tuple[Any, ...] = (value.keys(), value.values()) if isinstance(value, Mapping) else (value,)
        return all(test(one) for test, items in zip(tests, parts, strict=True) for one in items)

    return fits


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _described(kind: Any, value: object) -> str:
    """Say what a value of this type is; of a number that is too large, how large it may be."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        (allowed,) = (one for one in kind.__metadata__ if isinstance(one, Range))
        return _whole(allowed, value) if arguments[0] is int else f"a number {allowed}"
    if origin in (Union, types.UnionType):
        return " or ".join(_described(one, value) for one in arguments)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        count = "any number of" if arguments[-1] is Ellipsis else len(arguments)
        return f"a tuple of {count} values, each {_described(arguments[0], None)}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", types.NoneType: "None"}
    return words.get(kind) or f"of type {getattr(origin or kind, '__name__', kind)}"


def _whole(allowed: Range, value: object) -> str:
    too_large = isinstance(value, int) and value > allowed.most
    return f"at most {allowed.most}" if too_large else f"at least {allowed.least} and a whole number"
