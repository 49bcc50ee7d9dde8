"""Chances of being left out, and how a wrong one is told."""

from __future__ import annotations

from archgrad.errors import UserError

__all__ = ["check_chance"]


def check_chance(what: str, chance: float) -> None:
    """Raise a UserError for what is no probability of dropping; 1 would leave nothing to divide."""
    number = isinstance(chance, int | float) and not isinstance(chance, bool)
    if not number or not 0 <= chance < 1:
        raise UserError(f"{what} is {chance!r}; it must be a number from 0 (drop nothing) to less than 1.")
