"""A folder with one sub-folder of image files per class."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar

import torch

from archgrad.data.base import Data, LoadOptions
from archgrad.data.sources.base import DataSource
from archgrad.data.sources.decode import image_suffixes
from archgrad.data.sources.encoded import FileList, load_images
from archgrad.errors import NoTestImagesError, UserError
from archgrad.system.files import existing_path, list_folder, shown_path
from archgrad.system.warn_once import warn_once

__all__ = ["Folder"]

_PARTS = {True: ("train",), False: ("test", "val", "validation")}
_logger = logging.getLogger(__name__)


class Folder(DataSource):
    """A folder with one sub-folder of image files per class.

    Classes are the names of the sub-folders, sorted. If there is a sub-folder ``train`` (``test``, ``val``) that has
    sub-folders, the classes are in it. There is one channel if all images are gray, else three. Images of more than
    256 MB are decoded when they are needed. A photo is turned upright as its EXIF data says. A few broken files are
    left out.
    """

    takes_path: ClassVar[bool] = True

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Decode the chosen images, or find them for later; log what is left out."""
        home = existing_path(path or "", "folder")
        folders = _class_folders(home, options.train)
        if len(folders) < 2:
            raise UserError(
                f"the folder {shown_path(home)} has {len(folders)} sub-folders for classes; give at least 2, one per "
                f"class, with the images in them."
            )
        paths, sizes = _images(folders)
        labels = torch.arange(len(folders)).repeat_interleave(torch.tensor(sizes))
        chosen = options.choose(labels)
        files = FileList(paths, chosen)
        classes = tuple(_text(folder.name) for folder in folders)
        name = f"folder:{_text(home.name or home.resolve().name)}"
        return load_images(name, labels[chosen], classes, options, lambda: iter(files), lambda: files)


def _class_folders(home: Path, train: bool) -> list[Path]:
    """Return the folders of the classes: those of the wanted part, if the folder is divided into parts."""
    found = _subfolders(home)
    # A part has sub-folders; a class called "train", as in CIFAR-100, has none.
    parts = {folder.name: folder for folder in found if folder.name in sum(_PARTS.values(), ()) and _subfolders(folder)}
    wanted = next((parts[name] for name in _PARTS[train] if name in parts), None)
    if wanted is None and not train:
        raise NoTestImagesError(
            f"the folder {shown_path(home)} has no sub-folder {' or '.join(_PARTS[False])}; add one with the test "
            f"images."
        )
    if wanted is not None and (unused := [folder.name for folder in found if folder.name not in parts]):
        names = ", ".join(map(shown_path, unused[:5]))
        warn_once(_logger, "the images in %s of %s are in no part, and are not used.", names, shown_path(home))
    return [folder for folder in found if folder.name not in parts] if wanted is None else _subfolders(wanted)


def _subfolders(folder: Path) -> list[Path]:
    return [sub for sub in list_folder(folder)[0] if not sub.name.startswith(".")]


def _images(folders: list[Path]) -> tuple[list[str], list[int]]:
    """Return the image files and their number in each class; log what else is there, and refuse an empty class."""
    suffixes = image_suffixes()
    found, sizes, others, left_out = list[str](), list[int](), list[str](), 0
    for folder in folders:
        nested, files = list_folder(folder)
        seen = [file for file in files if not file.name.startswith(".")]
        images = [str(file) for file in seen if file.suffix.lower() in suffixes]
        more = [file.name for file in nested if not file.name.startswith(".")]
        more += [file.name for file in seen if file.suffix.lower() not in suffixes]
        left_out, others = left_out + len(more), [*others, *more][:5]
        if not images:
            kinds = ", ".join(sorted(suffixes))
            raise UserError(f"the class folder {shown_path(folder)} has no images ({kinds}); add some or remove it.")
        found += images
        sizes.append(len(images))
    if others:
        warn_once(
            _logger, "left out, because they are no images (%d): %s%s", left_out,
            ", ".join(map(shown_path, others)), ", …" if left_out > 5 else ".",
        )  # fmt: skip
    return found, sizes


def _text(name: str) -> str:
    """Return a name with bytes that are no text written as escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
