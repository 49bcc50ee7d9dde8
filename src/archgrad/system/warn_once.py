"""Warnings that are worth saying once, and some that are not worth saying."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["forget_warnings", "silenced", "warn_once"]


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning unless this process has logged one of the same wording; ``values`` fill in its %-fields."""
    if (logger.name, message) not in _said:
        _said.add((logger.name, message))
        logger.warning(message, *values)


def forget_warnings() -> None:
    """Forget which warnings were logged, so that they are logged again; a new search begins with this."""
    _said.clear()


@contextmanager
def silenced(name: str) -> Iterator[None]:
    """Let a logger, and those below it, log errors only inside the block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


_said: set[tuple[str, str]] = set()
