"""What every source of images is: a class that reads them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions, Origin, no_progress
from archgrad.errors import UserError, shortened
from archgrad.parts.fields import check_value
from archgrad.parts.registry import class_path
from archgrad.system.files import PathLike, existing_path

__all__ = ["FOLDER_VARIABLE", "DataSource", "default_augmentation"]

FOLDER_VARIABLE = "ARCHGRAD_DATA"


class DataSource(ABC):
    """A source of images, which the command line names ``NAME`` or ``NAME:PATH``.

    A source of your own is a subclass that defines :meth:`read`; its name is ``module:Name`` or ``module:Name:PATH``.
    ``takes_path`` tells whether the name has a path. The first line of the docstring describes the source in
    ``archgrad list data``.
    """

    takes_path: ClassVar[bool] = False
    in_tables: ClassVar[str | None] = None
    """The name of these images in accuracy tables, whose accuracies a search of them shows."""

    @abstractmethod
    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the images; ``path`` is that of the name, or the data folder if the source takes no path."""

    def check(self, path: Path | None) -> None:
        """Reject a path without data, before anything is read."""
        if self.takes_path:
            existing_path(path or "", "data")

    def __call__(
        self,
        path: PathLike | None = None,
        train: bool = True,
        *,
        limit: int | None = None,
        image_size: int | None = None,
        resize: str = "crop",
        seed: int = 0,
        strict: bool = False,
        progress: Callable[[int, int], None] = no_progress,
    ) -> Data:
        """Load the images that :class:`LoadOptions` describes; without ``train``, those for tests.

        A source without a path of its own looks in the folder ``path``, or in that of the variable ARCHGRAD_DATA.
        """
        check_value("path", path, PathLike | None)
        options = LoadOptions(train, limit, image_size, resize, seed, strict, progress)
        data = self.read(self.located(path), options)
        if not isinstance(data, Data):
            raise UserError(f"{class_path(type(self))}.read returned {shortened(data)}; it must return an ImageData.")
        return data.with_fields(origin=self._origin(path, options) if train else None)

    def located(self, path: PathLike | None) -> Path | None:
        """Return the path to read from: the given one, or the data folder if the source takes no path."""
        given = path if path is not None or self.takes_path else os.environ.get(FOLDER_VARIABLE)
        # Unlike that of Path, this function leaves the ~ of an unknown user alone.
        return Path(os.path.expanduser(given)) if given else None  # noqa: PTH111

    def _origin(self, path: PathLike | None, options: LoadOptions) -> Origin | None:
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


def default_augmentation(images: Tensor) -> Augmentation:
    """Return crops for all images [N, C, H, W], and flips for color only: gray images are often writing."""
    return Augmentation(crop_padding=max(1, min(images.shape[2:]) // 8), flip=images.shape[1] == 3)
