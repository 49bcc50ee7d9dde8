"""Parts by name: the short names of the command line, and ``module:Name`` for a user's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from archgrad.errors import ArchgradError, UserError, reason, shortened, unknown

__all__ = ["Registry", "class_path", "construct", "import_part", "import_path"]

Part = TypeVar("Part")


class Registry(Mapping[str, Callable[..., Part]], Generic[Part]):
    """The members of one family of parts: short name → constructor.

    :meth:`create` also takes ``module:Name``, a class of the user's own, which it imports.

    >>> from archgrad.relaxations import RELAXATIONS
    >>> RELAXATIONS.create("gumbel-hard").tau
    (10.0, 0.1)
    >>> RELAXATIONS.name_of(RELAXATIONS.create("softmax"))
    'softmax'
    """

    def __init__(self, family: str, base: type, members: Mapping[str, Callable[..., Part]]) -> None:
        self.family, self.base, self.members = family, base, dict(members)

    def __getitem__(self, name: str) -> Callable[..., Part]:
        return self.members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def create(self, name: str, **settings: Any) -> Part:
        """Return a new member by its short name, or a user's own by ``module:Name``."""
        make = self.constructor(name)
        kind: Any = make.func if isinstance(make, partial) else make
        known = [field.name for field in fields(kind)] if is_dataclass(kind) else list(settings)
        for setting in settings:
            if setting not in known:
                raise unknown(f"setting of the {self.family} {name!r}:", setting, known)
        return construct(name, lambda: make(**settings))

    def constructor(self, name: str) -> Callable[..., Part]:
        """Return what makes the member of a name."""
        if not isinstance(name, str):
            raise UserError(f"the name of a {self.family} is {shortened(name)}; it must be text.")
        if ":" in name:
            return self._imported(name)
        if name not in self.members:
            raise unknown(self.family, name, self.members)
        return self.members[name]

    def name_of(self, part: Part) -> str:
        """Return the name that :meth:`create` takes for parts of this type, whatever their settings are."""
        for name, member in self.members.items():
            made = member.func if isinstance(member, partial) else member
            if type(part) is made:
                return name
        return import_path(type(part))

    def label_of(self, part: Part) -> str:
        """Return the name of a part; a part without one gets a name from which nothing can be built."""
        try:
            return self.name_of(part)
        except UserError:
            return f"unnamed:{type(part).__name__}"

    def _imported(self, path: str) -> Callable[..., Part]:
        found: Any = import_part(path)
        if not isinstance(found, type) or not issubclass(found, self.base):
            raise UserError(f"{path} is no {self.family}: it must be a subclass of {import_path(self.base)}.")
        return cast("Callable[..., Part]", found)


def import_path(kind: type) -> str:
    """Return ``module:Name`` for a class; refuse one that cannot be imported by that.

    >>> import_path(Registry)
    'archgrad.parts.registry:Registry'
    """
    path = class_path(kind)
    if "<" in path or kind.__module__ == "__main__":
        raise UserError(
            f"the class {kind.__qualname__} cannot be imported by name, because it was defined in "
            f"{'a script' if kind.__module__ == '__main__' else 'a function'}; move it to the top of a module."
        )
    return path


def class_path(kind: type) -> str:
    """Return ``module:Name`` of a class, whether or not it can be imported by that."""
    return f"{_public_module(kind)}:{kind.__qualname__}"


def _public_module(kind: type) -> str:
    """Return the outermost package that exports a class: where files move within it, the name stays."""
    steps = kind.__module__.split(".")
    packages = [".".join(steps[:length]) for length in range(1, len(steps))]
    found = (name for name in packages if getattr(sys.modules.get(name), kind.__qualname__, None) is kind)
    return next(found, kind.__module__)


def import_part(path: str) -> Any:
    """Import ``module:Name``; raise a UserError if there is no such thing."""
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for step in name.split("."):
            found = getattr(found, step)
    except (Exception, SystemExit) as error:  # the module may do anything while it is imported
        raise UserError(
            f"{path[:100]} cannot be imported ({reason(error, typed=True)}); write module:Name, with the module's "
            f"folder in PYTHONPATH."
        ) from error
    return found


def construct(name: str, make: Callable[[], Part]) -> Part:
    """Return what ``make`` makes; raise a UserError if the constructor of a user's own part fails."""
    try:
        return make()
    except ArchgradError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{name} cannot be made ({reason(error, typed=True)}); correct its constructor or its settings."
        ) from error
