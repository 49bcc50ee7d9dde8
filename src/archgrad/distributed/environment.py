"""What ``torchrun`` says about this process, read without PyTorch."""

from __future__ import annotations

import os
from typing import NamedTuple

from archgrad.errors import UserError, shortened

__all__ = ["Launched", "is_silent", "launched"]

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Launched(NamedTuple):
    """The number of this process and how many there are, in all and on this machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def launched() -> Launched | None:
    """Return what ``torchrun`` says about this process; None if it is alone."""
    if not all(os.environ.get(name) for name in _NEEDED):
        return None
    rank, size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < size:
        raise UserError(f"RANK is {rank} and WORLD_SIZE is {size}; the rank must be from 0 to WORLD_SIZE - 1.")
    if size == 1:
        return None
    return Launched(rank, size, _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", size))


def is_silent() -> bool:
    """Tell whether another process prints for this one."""
    rank = os.environ.get("RANK", "0")
    return all(os.environ.get(name) for name in _NEEDED) and rank.isdecimal() and int(rank) > 0


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise UserError(f"the variable {name} is {shortened(text)}; it must be a whole number, as torchrun sets it.")
    return int(text)
