"""The identity of a search: its parts and settings as nested data, which a resume compares with the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, shortened
from archgrad.parts.serialization import differences, digest, to_data

__all__ = ["Identity"]

_SHOWN = 3
_OPTIONAL = ("task", "precision", "local_batch_norm")
"""Parts that an identity names only where they are not the default, as those of earlier versions did not."""


@dataclass(frozen=True)
class Identity:
    """The parts and settings of a search by name; ``required`` omits fields at their defaults.

    >>> Identity.of(seed=0, split=(0.5, 0.5)).data
    {'seed': 0, 'split': [0.5, 0.5]}
    """

    data: Mapping[str, Any]
    required: Mapping[str, Any]

    @classmethod
    def of(cls, **parts: Any) -> Identity:
        """Describe these parts."""
        return cls(to_data(parts), to_data(parts, sparse=True))

    def with_parts(self, **parts: Any) -> Identity:
        """Return the identity with these parts added."""
        more = Identity.of(**parts)
        return Identity({**self.data, **more.data}, {**self.required, **more.required})

    @property
    def digest(self) -> str:
        """16 letters that tell this search from any other."""
        return digest(self.data)

    def check(self, saved: Any, path: Path) -> None:
        """Raise a UserError if the checkpoint in ``path`` was saved by another search."""
        known = {*self.data, *_OPTIONAL}  # not which stage it is
        own = {name: value for name, value in dict(saved or {}).items() if name in known}
        found = list(differences(own, dict(self.data), dict(self.required)))
        if not found:
            return
        named = [f"its {place} is {_shown(old)}, this one's is {_shown(new)}" for place, old, new in found[:_SHOWN]]
        more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
        raise UserError(
            f"{path} belongs to another search: {'; '.join(named)}{more}. Resume with the settings it was started "
            f"with, or choose another folder."
        )


def _shown(value: object) -> str:
    return "the default" if value is None else shortened(value)
