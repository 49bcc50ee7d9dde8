"""What every source of images is: a class that reads them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from archgrad.data.dataset import ImageData, LoadOptions, Origin
from archgrad.data.sources.common import existing_path
from archgrad.errors import UserError

__all__ = ["FOLDER_VARIABLE", "DataSource"]

FOLDER_VARIABLE = "ARCHGRAD_DATA"


class DataSource(ABC):
    """A source of images, which the command line names ``NAME`` or ``NAME:PATH``.

    A source of your own is a subclass that defines :meth:`read`; its name is ``module:Name`` or ``module:Name:PATH``.
    ``takes_path`` tells whether the name has a path. The first line of the docstring describes the source in
    ``archgrad list data``.
    """

    takes_path: ClassVar[bool] = False

    @abstractmethod
    def read(self, path: Path | None, options: LoadOptions) -> ImageData:
        """Read the images; ``path`` is that of the name, or the data folder if the source takes no path."""

    def check(self, path: Path | None) -> None:
        """Reject a path without data, before anything is read."""
        if self.takes_path:
            existing_path(path or "")

    def __call__(
        self,
        path: str | os.PathLike[str] | None = None,
        train: bool = True,
        *,
        limit: int | None = None,
        image_size: int | None = None,
        seed: int = 0,
    ) -> ImageData:
        """Load ``limit`` images at ``image_size``; without ``train``, those for tests.

        A source without a path of its own looks in the folder ``path``, or in that of the variable ARCHGRAD_DATA.
        """
        options = LoadOptions(train, limit, image_size, seed)
        data = self.read(self.located(path), options)
        return replace(data, origin=self._origin(path, options) if train else None)

    def located(self, path: str | os.PathLike[str] | None) -> Path | None:
        """Return the path to read from: the given one, or the data folder if the source takes no path."""
        given = path if path is not None or self.takes_path else os.environ.get(FOLDER_VARIABLE)
        return Path(given).expanduser() if given else None

    def _origin(self, path: str | os.PathLike[str] | None, options: LoadOptions) -> Origin | None:
        """Return how to load the images again, None for a source that cannot be named in a file."""
        from archgrad.data.sources import SOURCES

        try:
            name, usual = SOURCES.name_of(self), type(self)()
        except (UserError, TypeError):
            return None
        given = None if path is None else str(path)
        if vars(self) != vars(usual):
            return None
        return Origin(f"{name}:{given}", options) if self.takes_path else Origin(name, options, given)
