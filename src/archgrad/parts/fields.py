"""Fields of dataclasses: types and ranges by annotation, which are checked, described, and read from text.

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
from contextlib import suppress
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
    "described",
    "plain_types",
    "read_value",
]


@dataclass(frozen=True)
class Range:
    """The numbers from ``least`` to ``most``; ``above`` excludes ``least`` itself, and ``below`` excludes ``most``."""

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
"""A probability or a share below 1: at 1, the rescaling 1/(1 − p) of a dropout has no value."""
Count = Annotated[int, Range(1, 1_000_000)]
"""A number of things; more than a million is a typing mistake."""

_TEXTS: dict[Any, dict[str, Any]] = {
    bool: dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False),
    types.NoneType: {"none": None},
    str: {},
}
"""What a text stands for, by type."""


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


def read_value(name: str, value: Any, kind: Any) -> Any:
    """Return the value of this type that a text or a TOML value stands for; raise a UserError if there is none.

    >>> read_value("betas", "0.9, 0.99", tuple[float, float]), read_value("limit", "none", int | None)
    ((0.9, 0.99), None)
    """
    if not _has_text(kind):
        raise UserError(f"{name} cannot be set by a name and a value; set it in Python.")
    found = _read(value, kind)
    check_value(name, found, kind)
    return found


def plain_types(kind: Any) -> list[type]:
    """Return the types of numbers, texts and truth values in a type.

    >>> plain_types(Positive | Literal["auto"] | None)
    [<class 'float'>, <class 'str'>]
    """
    if get_origin(kind) is Literal:
        return [type(get_args(kind)[0])]
    inner = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
    return [kind] if kind in (bool, str, int, float) else [one for part in inner for one in plain_types(part)]


def _mistake(name: str, value: object, kind: Any) -> UserError:
    if get_origin(kind) is Literal and isinstance(value, str):
        return unknown(f"value of {name}:", value, get_args(kind))
    return UserError(f"{name} is {shortened(value)}; it must be {described(kind, value)}.")


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


def _has_text(kind: Any) -> bool:
    """Tell whether a text can stand for a value of this type."""
    origin, arguments = get_origin(kind), [one for one in get_args(kind) if one is not Ellipsis]
    if origin is Annotated:
        return _has_text(arguments[0])
    if origin in (Union, types.UnionType):
        return any(map(_has_text, arguments))
    return origin is Literal or kind in (int, float, *_TEXTS) or (origin is tuple and all(map(_has_text, arguments)))


def _read(value: Any, kind: Any) -> Any:
    """Return what a text or a TOML value stands for; a value that stands for nothing else stays as it is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _read(value, arguments[0])
    if origin in (Union, types.UnionType):
        ordered = sorted(arguments, key=lambda one: one is not types.NoneType)  # "none" is None before it is a text
        found = ((_read(value, one), one) for one in ordered)
        return next((read for read, one in found if _test(one)(read)), value)
    if origin is tuple:
        return _read_tuple(value, arguments)
    if kind in _TEXTS:
        return _TEXTS[kind].get(str(value).lower(), value)
    converts = isinstance(value, str | float) if kind is int else kind is float and isinstance(value, str | int)
    if converts and not isinstance(value, bool) and not (isinstance(value, float) and not value.is_integer()):
        with suppress(ValueError, OverflowError):
            return kind(value)
    return value


def _read_tuple(value: Any, kinds: tuple[Any, ...]) -> Any:
    if isinstance(value, str):
        value = [] if value.strip() == "()" else [one.strip() for one in value.split(",") if one.strip()]
    items = value if isinstance(value, list | tuple) else [value]
    each = [kinds[0]] * len(items) if kinds[-1] is Ellipsis else kinds
    return tuple(map(_read, items, each)) if len(each) == len(items) else value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def described(kind: Any, value: object = None) -> str:
    """Say what a value of this type is; of a number that is too large, how large it may be."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        (allowed,) = (one for one in kind.__metadata__ if isinstance(one, Range))
        return _whole(allowed, value) if arguments[0] is int else f"a number {allowed}"
    if origin in (Union, types.UnionType):
        return " or ".join(described(one, value) for one in arguments)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        count = "any number of" if arguments[-1] is Ellipsis else len(arguments)
        return f"a tuple of {count} values, each {described(arguments[0])}"
    if origin in (dict, Mapping):
        return f"a dictionary, each key {described(arguments[0])} and each value {described(arguments[1])}"
    if kind in (None, types.NoneType):
        return "None"
    words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text", Any: "anything"}
    return words.get(kind) or f"of type {getattr(origin or kind, '__name__', kind)}"


def _whole(allowed: Range, value: object) -> str:
    too_large = isinstance(value, int) and value > allowed.most
    return f"at most {allowed.most:,}" if too_large else f"at least {allowed.least} and a whole number"
