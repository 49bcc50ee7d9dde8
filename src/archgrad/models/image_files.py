"""Predictions for image files; a damaged one does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.data.base import LoadOptions, no_progress
from archgrad.data.sources.decode import decode_one, image_suffixes
from archgrad.data.sources.encoded import FileList
from archgrad.errors import UserError
from archgrad.models.classifier import AnyPrediction, Classifier
from archgrad.system.files import list_folder, shown_path
from archgrad.system.warn_once import silenced

__all__ = ["FilePrediction", "find_images", "predict_files"]


class FilePrediction(NamedTuple):
    """What a model says of an image file, or why the file cannot be read."""

    path: Path
    result: AnyPrediction | UserError


def find_images(paths: Iterable[Path]) -> FileList:
    """Return the given files, and the images in the given folders and all folders in them, sorted.

    Hidden files are left out, and links to folders are not followed, for they may lead in a circle.
    """
    suffixes, found = image_suffixes(), list[str]()
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 - is_dir raises for some names
            found.append(str(path))
            continue
        before, waiting = len(found), [path]
        while waiting:
            folder = waiting.pop()
            inner, files = list_folder(folder)
            waiting += [one for one in reversed(inner) if not one.name.startswith(".") and not one.is_symlink()]
            found += [str(one) for one in files if one.suffix.lower() in suffixes and not one.name.startswith(".")]
        if len(found) == before:
            raise UserError(f"the folder {shown_path(path)} has no images ({', '.join(sorted(suffixes))}); add some.")
    return FileList(found)


def predict_files(
    model: Classifier, files: FileList, batch_size: int = 64, progress: Callable[[int, int], None] = no_progress
) -> Iterator[FilePrediction]:
    """Yield a prediction or an error for each file, in order; ``progress(done, total)`` is called after each batch."""
    about = model.preprocessing
    if about.channels not in (1, 3):
        raise UserError(
            f"the model needs images of {about.channels} channels, but image files have 1 or 3; use Model.predict in "
            f"Python."
        )
    model.check_size(min(batch_size, len(files)))
    options = LoadOptions(image_size=about.image_size, resize=about.resize)
    for start in range(0, len(files), batch_size):
        numbers = range(start, min(start + batch_size, len(files)))
        images = [_decoded(files, number, options, about.channels) for number in numbers]
        good = [image for image in images if isinstance(image, Tensor)]
        predictions = iter(model.predict(torch.stack(good)) if good else ())
        for number, image in zip(numbers, images, strict=True):
            yield FilePrediction(files.path(number), next(predictions) if isinstance(image, Tensor) else image)
        progress(numbers.stop, len(files))


def _decoded(files: FileList, number: int, options: LoadOptions, channels: int) -> Tensor | UserError:
    """Return an image uint8 [C, S, S], or why it cannot be read."""
    try:
        with silenced("archgrad.data"):  # its advice is for a search: the model has decided on colors and shape
            return decode_one(files[number], options, channels)
    except UserError as error:
        return error
