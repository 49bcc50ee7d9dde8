"""Warnings that are worth saying once."""

from __future__ import annotations

import logging

__all__ = ["forget_warnings", "warn_once"]


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning unless this process has logged one of the same wording; ``values`` fill in its %-fields."""
    if _is_new(logger.name, message):
        logger.warning(message, *values)


def forget_warnings() -> None:
    """Forget which warnings were logged, so that they are logged again; a new search begins with this."""
    _said.clear()


_said: set[tuple[str, str]] = set()


def _is_new(name: str, message: str) -> bool:
    if (name, message) in _said:
        return False
    _said.add((name, message))
    return True
