"""The data of a search: images in memory, or inputs that are read when they are needed."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, Origin, Shape, described
from archgrad.data.inputs import Inputs, as_inputs
from archgrad.data.labels import check_labels
from archgrad.data.normalize import Normalization, NormalizationChoice
from archgrad.data.resize import resize
from archgrad.errors import UserError, reason, shortened
from archgrad.parts.fields import check_fields
from archgrad.system import random_streams
from archgrad.system.random_streams import StreamKey, kept_random_state, seed_random_state

__all__ = ["DatasetData", "ImageData", "Transform", "duplicates_in"]

Transform = Callable[..., Any]
"""``transform(input)`` or ``transform(input, generator=…)``: a random change of a training input [C, H, W]."""


@dataclass(frozen=True, eq=False)
class ImageData(Data):
    """Images (uint8 [N, C, H, W] on the CPU), their classes (int64 [N]), and the augmentation that suits them.

    ``files`` are the names of the images, () if they have none.

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
    files: tuple[str, ...] = field(default=(), repr=False)
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
        files = tuple(self.files[index] for index in indices.tolist()) if self.files else ()
        return replace(self, images=self.images[indices], targets=self.targets[indices], origin=None, files=files)

    def file_of(self, index: int) -> str:
        """Return how the source names an image."""
        return self.files[index] if self.files else ""

    def resized(self, size: int, mode: str = "crop") -> ImageData:
        """Return the data with images of ``size`` × ``size`` pixels, and the augmentation scaled to them."""
        augmentation = self.augmentation.scaled(self.image_size, size)
        return replace(self, images=resize(self.images, size, mode), augmentation=augmentation, origin=None)

    def digest(self) -> str:
        """Return a hash of the shape, pixels and labels."""
        state = hashlib.sha256(repr(tuple(self.images.shape)).encode())
        for tensor in (self.images, self.targets):
            state.update(tensor.contiguous().numpy().data)
        return state.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class DatasetData(Data):
    """Inputs that a reader gives by number, and their targets; :func:`from_dataset` makes it.

    The ``transform`` changes training inputs before they are normalized. If it has an argument ``generator``, it gets
    one. Else the global generators of PyTorch, NumPy and Python are seeded for each input. Both depend on the seed of
    the search, the pass and the index alone. ``indices`` are the chosen inputs, and ``resize_to`` is (size, mode).
    """

    name: str
    inputs: Inputs = field(repr=False)
    targets: Tensor = field(repr=False)
    classes: tuple[str, ...]
    shape: Shape
    dtype: torch.dtype
    augmentation: Augmentation = field(default_factory=Augmentation)
    normalization: NormalizationChoice = "measured"
    transform: Transform | None = None
    origin: Origin | None = field(default=None, repr=False)
    indices: Tensor | None = field(default=None, repr=False)
    resize_to: tuple[int, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.targets.is_floating_point() and self.classes:
            check_labels(self.name, self.targets, self.classes)
        elif len(self.targets) < 2:
            raise UserError(f"the data {self.name!r} has {len(self.targets)} items; give at least 2.")
        given = self.normalization
        if isinstance(given, Normalization) and len(given.mean) != self.channels:
            raise UserError(
                f"the normalization has {len(given.mean)} means, but the inputs of {self.name!r} have {self.channels} "
                f"channels; give one per channel."
            )
        if not isinstance(given, Normalization) and given not in ("measured", None):
            raise UserError(
                f'normalization is {shortened(given)}; it must be "measured", an archgrad.data.Normalization or None.'
            )
        if self.transform is not None and not callable(self.transform):
            raise UserError(f"transform is {shortened(self.transform)}; it must be a function of an input [C, H, W].")

    @property
    def lazy(self) -> bool:
        """Whether reading an input takes work that other processes can do."""
        return self.inputs.lazy or self.transform is not None

    def read(self, indices: Tensor, key: StreamKey = (0, "read"), training: bool = False) -> Tensor:
        """Read the inputs [B, C, H, W] with these indices; ``training`` applies the transform."""
        out = torch.empty(len(indices), *self.shape, dtype=self.dtype)
        transform = self.transform if training else None
        with kept_random_state() if self.inputs.random or transform is not None else nullcontext():
            for place, index in enumerate(indices.tolist()):
                out[place] = self._read_one(index, key, transform)
        return out

    def _read_one(self, index: int, key: StreamKey, transform: Transform | None) -> Tensor:
        number = index if self.indices is None else int(self.indices[index])
        if self.inputs.random or transform is not None:
            seed_random_state(random_streams.seed_of(*key, number))
        found = self.inputs[number]
        if self.resize_to is not None:
            found = resize(found[None], *self.resize_to)[0]
        self._check_like(found, number, "is")
        return found if transform is None else self._transformed(found, transform, number, key)

    def _transformed(self, found: Tensor, transform: Transform, number: int, key: StreamKey) -> Tensor:
        draws = random_streams.generator(*key, number, "transform")
        try:
            changed = transform(found, generator=draws) if _takes_generator(transform) else transform(found)
        except (MemoryError, UserError):
            raise
        except Exception as problem:  # whatever a user's function raises
            raise UserError(
                f"the transform of {self.name!r} fails on input {number} ({reason(problem, typed=True)}); correct it."
            ) from problem
        changed = as_inputs(changed, f"{self.name} (transformed)", number)
        self._check_like(changed, number, "becomes by its transform")
        return changed

    def _check_like(self, found: Tensor, number: int, verb: str) -> None:
        if tuple(found.shape) != self.shape or found.dtype != self.dtype:
            raise UserError(
                f"input {number} of {self.name!r} {verb} {described(found)}, but the inputs are "
                f"{described(torch.empty(self.shape, dtype=self.dtype, device='meta'))}; make all of them alike."
            )

    def file_of(self, index: int) -> str:
        """Return how the inputs name one of them."""
        return self.inputs.file_of(index if self.indices is None else int(self.indices[index]))

    def select(self, indices: Tensor) -> DatasetData:
        """Return the data with these indices, in this order."""
        own = indices if self.indices is None else self.indices[indices]
        return replace(self, targets=self.targets[indices], indices=own, origin=None)

    @property
    def resizable(self) -> bool:
        """Whether the inputs are bytes of their own size, without a transform, which may expect that size."""
        return self.dtype == torch.uint8 and self.resize_to is None and self.transform is None

    def resized(self, size: int, mode: str = "crop") -> DatasetData:
        """Return the data with images of ``size`` × ``size`` pixels, each resized when it is read."""
        if self.dtype != torch.uint8:
            raise UserError(f"the inputs of {self.name!r} are {self.dtype} and not bytes; resize them in the dataset.")
        if self.resize_to is not None:
            raise UserError(f"the inputs of {self.name!r} are resized already; resize the original data.")
        scaled = self.augmentation.scaled(self.image_size, size)
        shape = (self.channels, size, size)
        return replace(self, shape=shape, augmentation=scaled, resize_to=(size, mode), origin=None)

    def digest(self) -> str:
        """Return a hash of the targets, of what the reader tells of its inputs, and of what changes them."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        chosen = torch.arange(len(self)) if self.indices is None else self.indices
        words = (len(self), self.shape, self.dtype, self.resize_to, self.normalization, _name(self.transform))
        state = hashlib.sha256(repr(words).encode())
        state.update(self.targets.contiguous().numpy().tobytes())
        state.update(self.inputs.fingerprint(chosen))
        return state.hexdigest()[:16]


def _takes_generator(transform: Transform) -> bool:
    try:
        return "generator" in inspect.signature(transform).parameters
    except (TypeError, ValueError):  # a function of C
        return False


def _name(transform: Transform | None) -> str | None:
    kind = transform if inspect.isfunction(transform) else type(transform)
    return None if transform is None else f"{kind.__module__}:{kind.__qualname__}"


def duplicates_in(first: Data, second: Data) -> Tensor:
    """Tell which images of the second data have the same pixels as one of the first (bool); none if any are lazy.

    >>> images = torch.arange(12, dtype=torch.uint8).view(3, 1, 2, 2)
    >>> first = ImageData("first", images, torch.tensor([0, 1, 1]), ("cat", "dog"))
    >>> duplicates_in(first.select(torch.tensor([2])), first)
    tensor([False, False,  True])
    """
    if not isinstance(first, ImageData) or not isinstance(second, ImageData) or first.shape != second.shape:
        return torch.zeros(len(second), dtype=torch.bool)
    known = set(map(_pixel_hash, first.images))
    return torch.tensor([_pixel_hash(image) in known for image in second.images])


def _pixel_hash(image: Tensor) -> bytes:
    return hashlib.sha256(image.numpy().tobytes()).digest()
