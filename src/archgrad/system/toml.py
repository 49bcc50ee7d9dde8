"""Read TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from archgrad.errors import UserError

__all__ = ["parse_toml"]


def parse_toml(text: str, place: Path | str) -> dict[str, Any]:
    """Return what TOML says; raise a UserError, which names its ``place``, if it is not valid."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError is also that of an integer of 5,000 digits
        reason = "its values are nested too deeply" if isinstance(error, RecursionError) else error
        raise UserError(f"{place} is not valid TOML: {reason}.") from error
