"""The memory that images take."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from archgrad.errors import UserError

__all__ = ["check_memory"]


def check_memory(size: int) -> None:
    """Reject images of more bytes than the machine has free, where the system tells."""
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        free = 1024 * int(found[1]) if found else size
        if size > free:
            raise UserError(
                f"the images would take {size / 1e9:.1f} GB and {free / 1e9:.1f} GB of memory are free; "
                f"use fewer of them (--limit) or smaller ones (--image-size)."
            )
