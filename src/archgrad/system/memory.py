"""How much memory there is, and a sentence where a search would need more."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from archgrad.errors import UserError

__all__ = ["check_images", "check_memory", "free_memory", "total_memory"]

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory a container may take, in both versions of control groups."""


def total_memory() -> int:
    """Return the bytes of memory that this process may take: of the machine, or of its container if that has less."""
    limits = [2**62]
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        with suppress(ValueError, OSError):  # "max" is no limit
            limits.append(int(Path(path).read_text(encoding="ascii")))
    return min(limits)


def free_memory() -> int:
    """Return the bytes that are free now, where the system tells; else all that this process may take."""
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        if found:
            return min(1024 * int(found[1]), total_memory())
    return total_memory()


def check_images(size: int) -> None:
    """Raise a UserError if images of so many bytes do not fit into the free memory."""
    free = free_memory()
    if size > free:
        raise UserError(
            f"the images would take {size / 1e9:.1f} GB and {free / 1e9:.1f} GB of memory are free; "
            f"use fewer of them (--limit) or smaller ones (--image-size)."
        )


def check_memory(what: str, needed: float, fix: str, available: int | None = None) -> None:
    """Raise a UserError if something needs more bytes than there are."""
    there = total_memory() if available is None else available
    if needed > there:
        raise UserError(
            f"{what} would take at least {needed / 2**30:,.0f} GB of memory, but there are {there / 2**30:,.1f} GB; "
            f"{fix}."
        )
