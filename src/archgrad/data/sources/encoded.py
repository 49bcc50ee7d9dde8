"""Encoded image files by number: decoded at once, or whenever they are needed if they would fill the memory."""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions, Shape, no_progress
from archgrad.data.dataset import DatasetData, ImageData
from archgrad.data.inputs import Inputs
from archgrad.data.labels import check_labels
from archgrad.data.sources.base import default_augmentation
from archgrad.data.sources.decode import BrokenFiles, Encoded, decode_all, decode_one, first_sides
from archgrad.errors import BrokenImageError, UserError
from archgrad.system.files import open_regular, shown_path

__all__ = ["MOST_IN_MEMORY", "CopiedImages", "FileList", "load_images"]

MOST_IN_MEMORY = 1 << 28
"""Images of more bytes than this, decoded, stay where they are: 256 MB, and CIFAR-10 takes 154."""
_LOOKED_AT = 256
"""So many images tell whether the others have color."""
_LARGEST_FILE = 1 << 28


def load_images(
    name: str,
    labels: Tensor,
    classes: tuple[str, ...],
    options: LoadOptions,
    read: Callable[[], Iterator[Encoded]],
    files: Callable[[], FileList | CopiedImages],
    augmentation: Augmentation | None = None,
) -> Data:
    """Decode the images of ``read`` now, or keep their ``files`` if they take more than :data:`MOST_IN_MEMORY` bytes.

    The result is the same as with ``limited`` and ``resized`` afterwards. A few broken images are left out; of those
    that are not kept in memory, each is replaced by another one of its class.
    """
    count, size = len(labels), options.image_size
    height, width = first_sides(read()) if size is None else (size, size)
    if count * 3 * height * width <= MOST_IN_MEMORY:
        names = list[str]()

        def named() -> Iterator[Encoded]:
            for one in read():
                names.append(one.place or one.name)
                yield one

        images, broken = decode_all(named(), count, options)
        if broken.names:
            broken.say("left out")
            labels = labels[[number for number in range(count) if number not in broken.names]]
            check_labels(name, labels, classes, every=options.train)
        kept_names = tuple(one for number, one in enumerate(names) if number not in broken.names)
        augmentation = augmentation or default_augmentation(images)
        return ImageData(name, images, labels, classes, augmentation, files=kept_names)
    kept, quiet = files(), replace(options, progress=no_progress)
    places = torch.linspace(0, count - 1, min(count, _LOOKED_AT), dtype=torch.float64).long().tolist()
    sample, _ = decode_all((kept[place] for place in places), len(places), quiet)
    shape: Shape = (sample.shape[1], sample.shape[2], sample.shape[3])
    options.progress(count, count)
    inputs, augmentation = DecodedInputs(kept, shape, quiet, labels), augmentation or default_augmentation(sample)
    return DatasetData(name, inputs, labels, classes, shape, torch.uint8, augmentation)


class DecodedInputs(Inputs):
    """Images that are decoded, and resized as the options say, each time they are read.

    In place of a broken file stands the next one of its class.
    """

    def __init__(self, files: FileList | CopiedImages, shape: Shape, options: LoadOptions, labels: Tensor) -> None:
        self.files, self.shape, self.options, self.labels = files, shape, options, labels
        self.broken = BrokenFiles(len(files), options.strict)

    def __getitem__(self, index: int) -> Tensor:
        try:
            return self._decoded(self.files[index])
        except BrokenImageError as error:
            self.broken.add(index, self.files[index].name, error)
            self.broken.say("replaced by others of their class")
        same = (self.labels == self.labels[index]).nonzero().flatten()
        later = [int(one) for one in (*same[same > index], *same[same < index]) if int(one) not in self.broken.names]
        if not later:
            raise UserError(f"no image of class {int(self.labels[index])} can be read; replace or remove them.")
        return self[later[0]]

    def file_of(self, index: int) -> str:
        """Return the folder and the name of a file."""
        return self.files[index].place or self.files[index].name

    def _decoded(self, file: Encoded) -> Tensor:
        image = decode_one(file, self.options, self.shape[0])
        height, width = self.shape[1:]
        if tuple(image.shape[1:]) != (height, width):
            raise UserError(
                f"the image {file.name} has {image.shape[1]}×{image.shape[2]} pixels and the others {height}×{width}; "
                f"resize them with --image-size {min(*image.shape[1:], height, width)}."
            )
        return image

    def fingerprint(self, indices: Tensor) -> bytes:
        """Return the fingerprint of all files, and which of them are chosen."""
        return self.files.fingerprint() + indices.contiguous().numpy().tobytes()


class FileList:
    """Image files, or the ``chosen`` ones of them. The paths are one array, which worker processes share.

    >>> FileList(["cats/tom.png", "cats/tux.png"]).path(1).as_posix()
    'cats/tux.png'
    """

    def __init__(self, paths: Sequence[str], chosen: Tensor | None = None) -> None:
        self._all = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)
        self._paths = self._all if chosen is None else self._all[chosen.numpy()]

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, index: int) -> Path:
        """Return the path of a file."""
        return Path(os.fsdecode(self._paths[index]))

    def __getitem__(self, index: int) -> Encoded:
        path = self.path(index)
        opening = partial(open_regular, path, "image", _LARGEST_FILE)
        return Encoded(shown_path(path), opening, f"{path.parent.name}/{path.name}")

    def __iter__(self) -> Iterator[Encoded]:
        return map(self.__getitem__, range(len(self)))

    def fingerprint(self) -> bytes:
        """Return the names of all files by folder, and the sizes of the chosen ones; a file that is gone has none."""
        sizes = np.full(len(self), -1, dtype=np.int64)
        for index in range(len(self)):
            with suppress(OSError):
                sizes[index] = self.path(index).stat().st_size
        folders = groupby(self._all.tolist(), os.path.dirname)
        return b"\0".join(b"".join(map(os.path.basename, files)) for _, files in folders) + sizes.tobytes()


class CopiedImages:
    """Encoded images, copied once to an anonymous temporary file, which the system deletes when the process ends.

    The variable TMPDIR tells in which folder. ``fingerprint`` tells the images from others.
    """

    def __init__(self, images: Iterable[Encoded], fingerprint: bytes) -> None:
        self._names, self._fingerprint, ends = list[str](), fingerprint, [0]
        try:
            self._file = tempfile.TemporaryFile(prefix="archgrad-")  # noqa: SIM115 - it is open as long as the data
            weakref.finalize(self, self._file.close)
            for image in images:
                self._names.append(image.name)
                ends.append(ends[-1] + self._file.write(image.open().read()))
            self._file.flush()
        except OSError as problem:
            raise UserError(
                f"the encoded images do not fit into the temporary folder {tempfile.gettempdir()} "
                f"({problem.strerror}); set the variable TMPDIR to a folder with more room."
            ) from problem
        self._ends = np.array(ends, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Encoded:
        start, end = self._ends[index : index + 2].tolist()
        content = os.pread(self._file.fileno(), end - start, start)  # unlike seek and read, for many processes at once
        return Encoded(self._names[index], partial(io.BytesIO, content))

    def fingerprint(self) -> bytes:
        """Return the given fingerprint."""
        return self._fingerprint

    def __getstate__(self) -> dict[str, Any]:
        """Give the open file to a worker process that is no fork."""
        return vars(self) | {"_file": reduction.DupFd(self._file.fileno())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"_file": os.fdopen(state["_file"].detach(), "r+b")})
