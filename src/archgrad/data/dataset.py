"""Labeled images in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, Shape, check_labels, described
from archgrad.data.resize import RESIZE_MODES, resize
from archgrad.data.stratified_sampling import stratified_sample
from archgrad.errors import UserError, check_one_of, check_whole
from archgrad.parts.fields import check_fields
from archgrad.system.random_streams import StreamKey

__all__ = ["ImageData", "LoadOptions", "Origin", "no_progress"]


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LoadOptions:
    """Which images to load, and how.

    ``limit`` keeps that many, every class in its proportion; ``image_size`` resizes them. ``resize`` tells how images
    that are not square become so: "crop" keeps the middle, "pad" adds black borders, "stretch" distorts. A source may
    call ``progress(done, total)``.
    """

    train: bool = True
    limit: int | None = None
    image_size: int | None = None
    resize: str = "crop"
    seed: int = 0
    progress: Callable[[int, int], None] = field(default=no_progress, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_one_of("resize", self.resize, RESIZE_MODES)
        for name in ("limit", "image_size"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))

    def choose(self, labels: Tensor) -> Tensor:
        """Return the sorted indices of the labels [N] to keep, before any image is decoded."""
        return torch.arange(len(labels)) if self.limit is None else stratified_sample(labels, self.limit, self.seed)

    def apply(self, data: Data) -> Data:
        """Limit and resize data that is already loaded."""
        limited = data if self.limit is None else data.limited(self.limit, self.seed)
        return limited if self.image_size is None else limited.resized(self.image_size, self.resize)


@dataclass(frozen=True)
class Origin:
    """How to load images again: by the name of the data, with these options, from this data folder."""

    spec: str
    options: LoadOptions = LoadOptions()
    folder: str | None = None


@dataclass(frozen=True, eq=False)
class ImageData(Data):
    """Images (uint8 [N, C, H, W] on the CPU), their classes (int64 [N]), and the augmentation that suits them.

    >>> images = torch.zeros(6, 3, 8, 8, dtype=torch.uint8)
    >>> data = ImageData("toy", images, torch.arange(6) % 2, ("cat", "dog"))
    >>> len(data.limited(4, seed=0)), data.resized(4).image_size
    (4, 4)
    """

    name: str
    images: Tensor = field(repr=False)
    targets: Tensor = field(repr=False)
    classes: tuple[str, ...]
    augmentation: Augmentation = field(default_factory=Augmentation)
    origin: Origin | None = field(default=None, repr=False)
    normalization: ClassVar[str] = "measured"
    lazy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self, "{} of the data")
        images, labels = self.images, self.targets
        if images.dtype != torch.uint8 or images.ndim != 4 or 0 in images.shape[1:]:
            raise UserError(
                f"the images of {self.name!r} are {described(images)}; give uint8 [images, channels, height, width]."
            )
        if labels.is_floating_point() and not self.classes:  # numbers or labels, which the task checks
            if labels.shape[:1] != images.shape[:1] or labels.dim() > 2:
                raise UserError(f"the targets of {self.name!r} are {described(labels)}; give one row per image.")
            return
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            raise UserError(
                f"the labels of {self.name!r} are {described(labels)}; give int64 [{len(images)}], one per image."
            )
        if images.device.type != "cpu" or labels.device.type != "cpu":
            raise UserError(f"the data {self.name!r} is on {images.device}; keep it on the CPU (batches are moved).")
        check_labels(self.name, labels, self.classes)

    @property
    def shape(self) -> Shape:
        """The channels, height and width of every image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def read(self, indices: Tensor, key: StreamKey = (0, "read"), training: bool = False) -> Tensor:
        """Return the images uint8 [B, C, H, W] with these indices."""
        return self.images[indices]

    def select(self, indices: Tensor) -> ImageData:
        """Return the images with these indices, in this order."""
        return replace(self, images=self.images[indices], targets=self.targets[indices], origin=None)

    def limited(self, count: int, seed: int) -> ImageData:
        """Return ``count`` images with every class in its proportion: the same ones for the same seed."""
        return self.select(stratified_sample(self.targets, count, seed))

    def resized(self, size: int, mode: str = "crop") -> ImageData:
        """Return the data with images of ``size`` × ``size`` pixels, and the augmentation scaled to them."""
        augmentation = self.augmentation.scaled(self.image_size, size)
        return replace(self, images=resize(self.images, size, mode), augmentation=augmentation, origin=None)

    def digest(self) -> str:
        """Return a hash of the shape, pixels and labels: 16 letters."""
        state = hashlib.sha256(repr(tuple(self.images.shape)).encode())
        for tensor in (self.images, self.targets):
            state.update(tensor.contiguous().numpy().data)
        return state.hexdigest()[:16]
