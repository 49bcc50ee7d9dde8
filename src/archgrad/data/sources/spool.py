"""Many byte strings in a temporary file, to read any of them at once."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable
from multiprocessing import reduction
from typing import Any

import numpy as np

from archgrad.errors import UserError

__all__ = ["Spool"]


class Spool:
    """Byte strings by number, in a file without a name that ends with the process; TMPDIR tells where.

    >>> Spool([b"one", b"two"])[1]
    b'two'
    """

    def __init__(self, contents: Iterable[bytes]) -> None:
        ends = [0]
        try:
            self._file = tempfile.TemporaryFile(prefix="archgrad-")  # noqa: SIM115 - it is open as long as the data
            weakref.finalize(self, self._file.close)
            for content in contents:
                ends.append(ends[-1] + self._file.write(content))
            self._file.flush()
        except OSError as problem:
            raise UserError(
                f"the encoded images do not fit into the temporary folder {tempfile.gettempdir()} "
                f"({problem.strerror}); set the variable TMPDIR to a folder with more room."
            ) from problem
        self._ends = np.array(ends, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> bytes:
        start, end = self._ends[index : index + 2].tolist()
        return os.pread(self._file.fileno(), end - start, start)  # unlike seek and read, for many processes at once

    def __getstate__(self) -> dict[str, Any]:
        """Give the open file to a worker process that is no fork."""
        return {"ends": self._ends, "file": reduction.DupFd(self._file.fileno())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._ends, self._file = state["ends"], os.fdopen(state["file"].detach(), "r+b")
