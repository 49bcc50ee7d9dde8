"""CIFAR-10 and CIFAR-100, from the official archives or from parquet files."""

from __future__ import annotations

import tarfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions, described
from archgrad.data.dataset import ImageData
from archgrad.data.sources.base import FOLDER_VARIABLE, DataSource
from archgrad.data.sources.parquet import Parquet
from archgrad.errors import UserError, reason
from archgrad.system.files import existing_path, open_regular, read_regular, shown_path
from archgrad.system.restricted_pickle import read_pickle

__all__ = ["Cifar", "Cifar10", "Cifar100", "read_pickled"]

_SIDE = 32
_MOST_BYTES = 1 << 28
_AUGMENTATION = Augmentation(crop_padding=4, flip=True)


_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""


@dataclass(frozen=True)
class Cifar(DataSource):
    """The official archive, its extracted folder, or parquet files, whichever is found first.

    ``rows`` is the number of images in each file of the archive, for training and for tests.
    """

    name: str
    title: str
    archive: str
    folder: str
    train_files: tuple[str, ...]
    test_files: tuple[str, ...]
    rows: tuple[int, int]
    label_key: str
    classes: tuple[str, ...] = field(repr=False)

    def files(self, train: bool) -> tuple[str, ...]:
        """Return the names of the files of one part, in their order."""
        return self.train_files if train else self.test_files

    def check(self, path: Path | None) -> None:
        """Reject a folder without the files."""
        self._found(path, train=True)

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the official images, or decode the chosen ones from parquet."""
        file = self._found(path, options.train)
        if file.suffix == ".parquet":
            return self._from_parquet(file, options)
        read = _from_archive if file.name == self.archive else _from_folder
        contents, allowed = read(self, file, options.train), range(len(self.classes))
        rows = self.rows[0 if options.train else 1]
        pixels, labels = zip(
            *(
                read_pickled(contents[name], f"the {self.title} file {name}", self.label_key, _SIDE, allowed, rows)
                for name in self.files(options.train)
            ),
            strict=True,
        )
        images = torch.from_numpy(np.concatenate(pixels)).view(-1, 3, _SIDE, _SIDE)
        return options.apply(ImageData(self.name, images, torch.cat(labels), self.classes, _AUGMENTATION))

    def _found(self, path: Path | None, train: bool) -> Path:
        """Return the archive, the first extracted file, or the parquet file."""
        if path is None:
            raise UserError(
                f"no folder was given for {self.title}; use --data-dir, or set the variable {FOLDER_VARIABLE} "
                f"to the folder that has {self.archive}."
            )
        root = existing_path(path, "data folder")
        first, table = self.files(train)[0], "train.parquet" if train else "test.parquet"
        places = (self.archive, f"{self.folder}/{first}", first, f"{self.name}/{table}", table)
        try:
            found = next((root / place for place in places if (root / place).is_file()), None)
        except OSError as problem:
            raise UserError(f"the data folder {shown_path(root)} cannot be read ({problem.strerror}).") from problem
        if found is None:
            raise UserError(
                f"{self.title} is not in {shown_path(root)}; put {self.archive}, the extracted {self.folder}, "
                f"or {self.name}/train.parquet and test.parquet there."
            )
        return found

    def _from_parquet(self, file: Path, options: LoadOptions) -> Data:
        size = options.image_size or _SIDE
        source = Parquet(self.classes, self.name, _AUGMENTATION.scaled(_SIDE, size))
        data = source.read(file, options)
        if data.shape != (3, size, size):
            raise UserError(
                f"{shown_path(file)} is not {self.title}: its images are {list(data.shape)} and not "
                f"{[3, size, size]}. For other data use parquet:PATH."
            )
        return data


@dataclass(frozen=True)
class Cifar10(Cifar):
    """CIFAR-10, color, 32×32, 10 classes; read from --data-dir or ARCHGRAD_DATA."""

    in_tables: ClassVar[str | None] = "cifar10"

    name: str = "cifar10"
    title: str = "CIFAR-10"
    archive: str = "cifar-10-python.tar.gz"
    folder: str = "cifar-10-batches-py"
    train_files: tuple[str, ...] = tuple(f"data_batch_{number}" for number in range(1, 6))
    test_files: tuple[str, ...] = ("test_batch",)
    rows: tuple[int, int] = (10_000, 10_000)
    label_key: str = "labels"
    classes: tuple[str, ...] = (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    )  # fmt: skip


@dataclass(frozen=True)
class Cifar100(Cifar):
    """CIFAR-100, color, 32×32, 100 classes; read from --data-dir or ARCHGRAD_DATA."""

    in_tables: ClassVar[str | None] = "cifar100"

    name: str = "cifar100"
    title: str = "CIFAR-100"
    archive: str = "cifar-100-python.tar.gz"
    folder: str = "cifar-100-python"
    train_files: tuple[str, ...] = ("train",)
    test_files: tuple[str, ...] = ("test",)
    rows: tuple[int, int] = (50_000, 10_000)
    label_key: str = "fine_labels"
    classes: tuple[str, ...] = tuple(_CIFAR100_CLASSES.split())


def _from_folder(source: Cifar, first: Path, train: bool) -> dict[str, bytes]:
    what = f"file of {source.title}"
    return {name: read_regular(first.parent / name, what, _MOST_BYTES) for name in source.files(train)}


def _from_archive(source: Cifar, path: Path, train: bool) -> dict[str, bytes]:
    """Read the needed members into memory by their known names, without writing to the disk."""
    names = {f"{source.folder}/{name}": name for name in source.files(train)}
    contents = {}
    try:
        with open_regular(path, "archive") as packed, tarfile.open(fileobj=packed, mode="r:gz") as archive:
            for member in archive:
                if member.name in names and member.isfile() and member.size <= _MOST_BYTES:
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


def read_pickled(
    content: bytes, where: str, label_key: str, side: int, allowed: range, rows: int | None = None
) -> tuple[NDArray[np.uint8], Tensor]:
    """Read a pickled dictionary of images uint8 [rows, 3·side²] and a list of labels, which become int64 [rows]."""
    values = read_pickle(content, where)
    pixels, labels = values.get("data"), values.get(label_key)
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.dtype != np.uint8
        or pixels.shape[1:] != (3 * side**2,)
        or (rows is not None and len(pixels) != rows)
    ):
        found = described(pixels) if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise UserError(
            f"{where} has images of {found} and not uint8 [{rows or 'N'}, {3 * side**2}]; get the file again."
        )
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(type(label) is int for label in labels):
        raise UserError(f"{where} does not have a list of {len(pixels)} integers in {label_key!r}; get the file again.")
    if labels and not (min(labels) in allowed and max(labels) in allowed):
        raise UserError(
            f"{where} is mislabeled: its labels go from {min(labels)} to {max(labels)}, but must be from "
            f"{allowed[0]} to {allowed[-1]}; get the file again."
        )
    return pixels, torch.tensor(labels, dtype=torch.int64)
