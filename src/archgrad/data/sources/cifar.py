"""CIFAR-10 and CIFAR-100, from the official archives or from parquet files."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data
from archgrad.data.dataset import ImageData, LoadOptions
from archgrad.data.sources.base import FOLDER_VARIABLE, DataSource
from archgrad.data.sources.cifar_layout import CIFAR10, CIFAR100, CifarLayout
from archgrad.data.sources.common import reason
from archgrad.data.sources.parquet import Parquet
from archgrad.errors import UserError
from archgrad.system.files import existing_path, open_regular, read_regular, shown_path
from archgrad.system.restricted_pickle import read_arrays

__all__ = ["Cifar", "Cifar10", "Cifar100"]

_SIDE = 32
_ROW = 3 * _SIDE * _SIDE
_MOST_BYTES = 1 << 28
_AUGMENTATION = Augmentation(crop_padding=4, flip=True)


@dataclass(frozen=True)
class Cifar(DataSource):
    """The official archive of one layout, its extracted folder, or parquet files, whichever is found first."""

    layout: CifarLayout

    def check(self, path: Path | None) -> None:
        """Reject a folder without the files."""
        self._found(path, train=True)

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the official images, or decode the chosen ones from parquet."""
        layout = self.layout
        file = self._found(path, options.train)
        if file.suffix == ".parquet":
            return self._from_parquet(file, options)
        read = _from_archive if file.name == layout.archive else _from_folder
        contents = read(layout, file, options.train)
        rows = layout.rows[0 if options.train else 1]
        parts = [_part(layout, name, contents[name], rows) for name in layout.files(options.train)]
        images, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        return options.apply(ImageData(layout.name, images, labels, layout.classes, _AUGMENTATION))

    def _found(self, path: Path | None, train: bool) -> Path:
        """Return the archive, the first extracted file, or the parquet file."""
        layout = self.layout
        if path is None:
            raise UserError(
                f"no folder was given for {layout.title}; use --data-dir, or set the variable {FOLDER_VARIABLE} "
                f"to the folder that has {layout.archive}."
            )
        root = existing_path(path, "data folder")
        first, table = layout.files(train)[0], "train.parquet" if train else "test.parquet"
        places = (layout.archive, f"{layout.folder}/{first}", first, f"{layout.name}/{table}", table)
        try:
            found = next((root / place for place in places if (root / place).is_file()), None)
        except OSError as problem:
            raise UserError(f"the data folder {shown_path(root)} cannot be read ({problem.strerror}).") from problem
        if found is None:
            raise UserError(
                f"{layout.title} is not in {shown_path(root)}; put {layout.archive}, the extracted {layout.folder}, "
                f"or {layout.name}/train.parquet and test.parquet there."
            )
        return found

    def _from_parquet(self, file: Path, options: LoadOptions) -> Data:
        size = options.image_size or _SIDE
        source = Parquet(self.layout.classes, self.layout.name, _AUGMENTATION.scaled(_SIDE, size))
        data = source.read(file, options)
        if data.shape != (3, size, size):
            raise UserError(
                f"{shown_path(file)} is not {self.layout.title}: its images are {list(data.shape)} and not "
                f"{[3, size, size]}. For other data use parquet:PATH."
            )
        return data


@dataclass(frozen=True)
class Cifar10(Cifar):
    """CIFAR-10, color, 32×32, 10 classes; read from --data-dir or ARCHGRAD_DATA."""

    layout: CifarLayout = CIFAR10
    in_tables: ClassVar[str | None] = CIFAR10.name


@dataclass(frozen=True)
class Cifar100(Cifar):
    """CIFAR-100, color, 32×32, 100 classes; read from --data-dir or ARCHGRAD_DATA."""

    layout: CifarLayout = CIFAR100
    in_tables: ClassVar[str | None] = CIFAR100.name


def _from_folder(layout: CifarLayout, first: Path, train: bool) -> dict[str, bytes]:
    what = f"file of {layout.title}"
    return {name: read_regular(first.parent / name, what, _MOST_BYTES) for name in layout.files(train)}


def _from_archive(layout: CifarLayout, path: Path, train: bool) -> dict[str, bytes]:
    """Read the needed members into memory by their known names, without writing to the disk."""
    names = {f"{layout.folder}/{name}": name for name in layout.files(train)}
    contents = {}
    try:
        with open_regular(path, "archive") as packed, gzip.GzipFile(fileobj=packed) as stream:
            limited = cast("IO[bytes]", _Limited(stream))
            with tarfile.open(fileobj=limited, mode="r|", bufsize=1 << 20) as archive:
                for member in archive:
                    if member.name in names and member.isfile():
                        content = archive.extractfile(member)
                        contents[names[member.name]] = content.read() if content else b""
                    if len(contents) == len(names):
                        break
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(f"{shown_path(path)} is truncated or damaged ({reason(problem)}); get it again.") from problem
    if missing := [name for name in names if names[name] not in contents]:
        raise UserError(f"{shown_path(path)} has no usable {', '.join(missing)}; get the official archive again.")
    return contents


class _Limited:
    """A stream of at most as many bytes as the official archives unpack to, and half as many more."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream, self._left = stream, _MOST_BYTES

    def read(self, size: int) -> bytes:
        """Read the next bytes."""
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise OSError(f"it unpacks to more than {_MOST_BYTES >> 20} MiB")
        return content


def _part(layout: CifarLayout, name: str, content: bytes, rows: int) -> tuple[Tensor, Tensor]:
    """Read one file into images uint8 [rows, 3, 32, 32] and labels int64 [rows]."""
    where = f"the {layout.title} file {name}"
    values = read_arrays(content, where)
    pixels, labels = values.get("data"), values.get(layout.label_key)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (rows, _ROW):
        found = f"{pixels.dtype} {list(pixels.shape)}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise UserError(f"{where} has images of {found} and not uint8 {[rows, _ROW]}; get the file again.")
    if not isinstance(labels, list) or len(labels) != rows or not all(type(label) is int for label in labels):
        raise UserError(f"{where} does not have a list of {rows} integers in {layout.label_key!r}; get it again.")
    if min(labels) < 0 or max(labels) >= len(layout.classes):
        raise UserError(
            f"{where} is mislabeled: its labels go from {min(labels)} to {max(labels)}, and those of {layout.title} "
            f"from 0 to {len(layout.classes) - 1}; get the file again."
        )
    return torch.from_numpy(pixels.copy()).view(rows, 3, _SIDE, _SIDE), torch.tensor(labels)
