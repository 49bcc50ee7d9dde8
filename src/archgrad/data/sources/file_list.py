"""A list of files that takes little memory: a million paths take about 40 MB."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from archgrad.data.sources.decode import Encoded
from archgrad.system.files import open_regular, shown_path

__all__ = ["FileList"]

_LARGEST_FILE = 1 << 28


class FileList:
    """Image files of some folders, by number: one text of all names, and where each begins.

    >>> files = FileList()
    >>> files.add("cats", ["tom.png", "tux.png"])
    >>> files.path(1).as_posix()
    'cats/tux.png'
    """

    def __init__(self) -> None:
        self._folders: list[str] = []
        self._names: list[bytes] = []
        self._starts: list[NDArray[np.int64]] = []
        self._firsts: list[int] = [0]
        self._chosen: NDArray[np.int64] | None = None

    def add(self, folder: str, names: Sequence[str]) -> None:
        """Append the files of a folder."""
        encoded = [os.fsencode(name) for name in names]
        self._folders.append(folder)
        self._names.append(b"".join(encoded))
        self._starts.append(np.cumsum([0, *map(len, encoded)], dtype=np.int64))
        self._firsts.append(self._firsts[-1] + len(names))

    def choose(self, indices: Tensor) -> None:
        """Keep only the files with these indices, in this order."""
        self._chosen = indices.numpy()

    def __len__(self) -> int:
        return self._firsts[-1] if self._chosen is None else len(self._chosen)

    def path(self, index: int) -> Path:
        """Return the path of a file."""
        number = index if self._chosen is None else int(self._chosen[index])
        folder = bisect_right(self._firsts, number) - 1
        start, end = self._starts[folder][number - self._firsts[folder] :][:2]
        return Path(self._folders[folder], os.fsdecode(self._names[folder][start:end]))

    def __getitem__(self, index: int) -> Encoded:
        path = self.path(index)
        return Encoded(shown_path(path), partial(open_regular, path, "image", _LARGEST_FILE))

    def fingerprint(self) -> bytes:
        """Return the names and the sizes of all files; a file that is gone has no size."""
        sizes = np.full(len(self), -1, dtype=np.int64)
        for index in range(len(self)):
            with suppress(OSError):
                sizes[index] = self.path(index).stat().st_size
        return b"\0".join(self._names) + sizes.tobytes()
