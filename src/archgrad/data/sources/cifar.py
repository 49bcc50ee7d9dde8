"""CIFAR-10 and CIFAR-100, from the official archives or from parquet files."""

from __future__ import annotations

import os
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.dataset import ImageData, Origin
from archgrad.data.sources.cifar_layout import CIFAR10, CIFAR100, CifarLayout
from archgrad.data.sources.common import existing_path, limit_and_resize
from archgrad.data.sources.parquet import parquet
from archgrad.errors import UserError
from archgrad.restricted_pickle import read_arrays

__all__ = ["FOLDER_VARIABLE", "cifar", "cifar10", "cifar100"]

FOLDER_VARIABLE = "ARCHGRAD_DATA"

_SIDE = 32
_ROW = 3 * _SIDE * _SIDE
_AUGMENTATION = Augmentation(crop_padding=4, flip=True)


def cifar10(
    folder: str | os.PathLike[str] | None = None,
    train: bool = True,
    *,
    limit: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
) -> ImageData:
    """Load CIFAR-10 (10 classes, 32×32 in color) from ``folder`` or that of the variable ARCHGRAD_DATA."""
    origin = Origin("cifar10", limit, image_size, seed, None if folder is None else str(folder)) if train else None
    return replace(cifar(CIFAR10, folder, train, limit, image_size, seed), origin=origin)


def cifar100(
    folder: str | os.PathLike[str] | None = None,
    train: bool = True,
    *,
    limit: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
) -> ImageData:
    """Load CIFAR-100 (100 fine classes, 32×32 in color) from ``folder`` or that of the variable ARCHGRAD_DATA."""
    origin = Origin("cifar100", limit, image_size, seed, None if folder is None else str(folder)) if train else None
    return replace(cifar(CIFAR100, folder, train, limit, image_size, seed), origin=origin)


def cifar(
    layout: CifarLayout,
    folder: str | os.PathLike[str] | None,
    train: bool,
    limit: int | None,
    image_size: int | None,
    seed: int,
) -> ImageData:
    """Load from the official archive, its extracted folder, or parquet files, whichever is found first."""
    root = _root(layout, folder)
    if (root / layout.archive).is_file():
        return limit_and_resize(_official(layout, _from_archive(layout, root, train), train), limit, image_size, seed)
    for extracted in (root / layout.folder, root):
        if (extracted / layout.files(train)[0]).is_file():
            return limit_and_resize(
                _official(layout, _from_folder(layout, extracted, train), train), limit, image_size, seed
            )
    for tables in (root / layout.name, root):
        file = tables / ("train.parquet" if train else "test.parquet")
        if file.is_file():
            return _from_parquet(layout, file, limit, image_size, seed)
    raise UserError(
        f"{layout.title} is not in {str(root)!r}; put {layout.archive}, the extracted {layout.folder}, "
        f"or {layout.name}/train.parquet and test.parquet there."
    )


def _root(layout: CifarLayout, folder: str | os.PathLike[str] | None) -> Path:
    chosen = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not chosen:
        raise UserError(
            f"no folder was given for {layout.title}; use --data-dir, or set the variable {FOLDER_VARIABLE} "
            f"to the folder that has {layout.archive}."
        )
    return existing_path(chosen, "data folder")


def _from_parquet(layout: CifarLayout, file: Path, limit: int | None, image_size: int | None, seed: int) -> ImageData:
    size = image_size or _SIDE
    data = parquet(
        file,
        limit=limit,
        image_size=image_size,
        seed=seed,
        classes=layout.classes,
        name=layout.name,
        augmentation=_AUGMENTATION.scaled(_SIDE, size),
    )
    if data.images.shape[1:] != (3, size, size):
        raise UserError(
            f"{str(file)!r} is not {layout.title}: its images are {list(data.images.shape[1:])} and not "
            f"{[3, size, size]}. For other data use parquet:PATH."
        )
    return data


def _from_folder(layout: CifarLayout, folder: Path, train: bool) -> dict[str, bytes]:
    contents = {}
    for name in layout.files(train):
        try:
            contents[name] = (folder / name).read_bytes()
        except OSError as problem:
            raise UserError(
                f"the file {str(folder / name)!r} of {layout.title} cannot be read ({problem.strerror}); "
                f"extract {layout.archive} again."
            ) from problem
    return contents


def _from_archive(layout: CifarLayout, root: Path, train: bool) -> dict[str, bytes]:
    """Read the needed members into memory by their known names, without writing to the disk."""
    path = root / layout.archive
    names = {f"{layout.folder}/{name}": name for name in layout.files(train)}
    most = 2 * _ROW * max(layout.rows)
    contents = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.name in names and member.isfile() and member.size <= most:
                    stream = archive.extractfile(member)
                    contents[names[member.name]] = stream.read() if stream else b""
                if len(contents) == len(names):
                    break
    except (tarfile.TarError, EOFError, zlib.error, OSError) as problem:
        raise UserError(f"{str(path)!r} is truncated or damaged ({problem}); get the file again.") from problem
    if missing := [name for name in names if names[name] not in contents]:
        raise UserError(f"{str(path)!r} has no usable {', '.join(missing)}; get the official archive again.")
    return contents


def _official(layout: CifarLayout, contents: dict[str, bytes], train: bool) -> ImageData:
    rows = layout.rows[0 if train else 1]
    parts = [_part(layout, name, contents[name], rows) for name in layout.files(train)]
    images, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return ImageData(layout.name, images, labels, layout.classes, _AUGMENTATION)


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
