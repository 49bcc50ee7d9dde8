"""Data by name, as on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from archgrad.data.dataset import ImageData, Origin
from archgrad.data.sources.cifar import cifar10, cifar100
from archgrad.data.sources.digits import digits
from archgrad.data.sources.folder import folder
from archgrad.data.sources.npz import npz
from archgrad.data.sources.parquet import parquet
from archgrad.errors import UserError, unknown

__all__ = ["SOURCES", "load"]

SOURCES: dict[str, str] = {
    "digits": "1797 handwritten digits, gray, 8×8, 10 classes; comes with scikit-learn",
    "cifar10": "CIFAR-10, color, 32×32, 10 classes; read from --data-dir or ARCHGRAD_DATA",
    "cifar100": "CIFAR-100, color, 32×32, 100 classes; read from --data-dir or ARCHGRAD_DATA",
    "parquet:PATH": "parquet files in the layout of the Hugging Face hub: a file or a folder",
    "folder:PATH": "a folder with one sub-folder of image files per class",
    "npz:PATH": "a NumPy archive with the arrays x and y",
}

_CIFAR = {"cifar10": cifar10, "cifar100": cifar100}
_FROM_PATH: dict[str, Callable[..., ImageData]] = {"parquet": parquet, "folder": folder, "npz": npz}


def load(
    spec: str,
    *,
    data_dir: Path | None = None,
    limit: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
    train: bool = True,
) -> ImageData:
    """Load the data that ``spec`` names: a key of :data:`SOURCES` with PATH replaced.

    ``limit`` keeps that many images, every class in its proportion, and ``image_size`` resizes them.

    >>> load("digits", limit=50, image_size=4).images.shape
    torch.Size([50, 1, 4, 4])
    """
    name, colon, path = spec.partition(":")
    if name in _FROM_PATH:
        if not path:
            raise UserError(f"the data {spec!r} has no path; write {name}:PATH, such as {name}:my-data.")
        images = _FROM_PATH[name](path, train, limit=limit, image_size=image_size, seed=seed)
        return replace(images, origin=Origin(spec, limit, image_size, seed) if train else None)
    if name not in SOURCES:
        raise unknown("data", spec, SOURCES)
    if colon:
        raise UserError(f"the data {name!r} takes no path, but {spec!r} has one; write {name}.")
    if name in _CIFAR:
        return _CIFAR[name](data_dir, train, limit=limit, image_size=image_size, seed=seed)
    if not train:
        raise UserError("the digits have no test images; hold some out with archgrad.data.split.")
    return digits(limit=limit, image_size=image_size, seed=seed)
