"""What a search reads: inputs by number, and a target for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from archgrad.data.labels import stratified_sample
from archgrad.data.resize import ResizeMode
from archgrad.parts.fields import Count, Range, check_fields, check_value
from archgrad.system.random_streams import StreamKey

if TYPE_CHECKING:
    from archgrad.data.augment import Augmentation
    from archgrad.data.normalize import NormalizationChoice

__all__ = ["Data", "LoadOptions", "Origin", "Shape", "described", "no_progress"]

Shape = tuple[int, int, int]


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LoadOptions:
    """Which images to load, and how.

    ``limit`` keeps that many, every class in its proportion; ``image_size`` resizes them. ``resize`` tells how images
    that are not square become so: "crop" keeps the middle, "pad" adds black borders, "stretch" distorts. A few broken
    image files are left out, unless it is ``strict``. A source may call ``progress(done, total)``.
    """

    train: bool = True
    limit: Annotated[int, Range(1, 10**12)] | None = None
    image_size: Count | None = None
    resize: str = "crop"
    seed: int = 0
    strict: bool = False
    progress: Callable[[int, int], None] = field(default=no_progress, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self, "{}")
        check_value("resize", self.resize, ResizeMode)

    def choose(self, labels: Tensor) -> Tensor:
        """Return the sorted indices of the labels [N] to keep, before any image is decoded."""
        return torch.arange(len(labels)) if self.limit is None else stratified_sample(labels, self.limit, self.seed)

    def resized(self, data: Data) -> Data:
        """Resize data that is already loaded, unless it has that size."""
        size = self.image_size
        return data if size is None or data.shape[1:] == (size, size) else data.resized(size, self.resize)

    def apply(self, data: Data) -> Data:
        """Limit and resize data that is already loaded."""
        return self.resized(data if self.limit is None else data.limited(self.limit, self.seed))


@dataclass(frozen=True)
class Origin:
    """How to load images again: by the name of the data, with these options, from this data folder."""

    spec: str
    options: LoadOptions = LoadOptions()
    folder: str | None = None


class Data(ABC):
    """Inputs of one shape (C, H, W), and their targets.

    :class:`ImageData` holds images in memory, and :class:`DatasetData` reads any dataset when it is needed. Both have

    - ``name``: in messages and in a run directory;
    - ``targets``: int64 [N] if they are classes, else floats [N] or [N, K];
    - ``classes``: the names of the classes, () if the targets are none;
    - ``shape``: (C, H, W) of every input;
    - ``augmentation``: random changes of whole batches in training;
    - ``normalization``: "measured", a given :class:`Normalization`, or None for none;
    - ``lazy``: whether reading an input takes work that other processes can do;
    - ``origin``: how to load the data again by its name, None if that is not possible.
    """

    name: str
    targets: Tensor
    classes: tuple[str, ...]
    augmentation: Augmentation
    origin: Origin | None
    if TYPE_CHECKING:  # a field of one subclass, computed in the other

        @property
        def shape(self) -> Shape: ...  # noqa: D102
        @property
        def normalization(self) -> NormalizationChoice: ...  # noqa: D102
        @property
        def lazy(self) -> bool: ...  # noqa: D102

    @abstractmethod
    def read(self, indices: Tensor, key: StreamKey = (0, "read"), training: bool = False) -> Tensor:
        """Return the inputs [B, C, H, W] with these indices, as bytes or floats.

        The random numbers that input i takes are a function of ``key`` and i. ``training`` applies the transform of the
        data, if it has one.
        """

    @abstractmethod
    def select(self, indices: Tensor) -> Data:
        """Return the data with these indices, in this order."""

    @abstractmethod
    def resized(self, size: int, mode: str = "crop") -> Data:
        """Return the data with images of ``size`` × ``size`` pixels, and the augmentation scaled to them."""

    @abstractmethod
    def digest(self) -> str:
        """Return a hash of the data: 16 hexadecimal digits."""

    def file_of(self, index: int) -> str:
        """Return how the source names an input, such as the end of its path; empty where it has no name."""
        return ""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def labels(self) -> Tensor:
        """The targets, where they are classes."""
        return self.targets

    @property
    def channels(self) -> int:
        """The number of channels of an input."""
        return self.shape[0]

    @property
    def image_size(self) -> int:
        """The shorter side of an input."""
        return min(self.shape[1:])

    @property
    def resizable(self) -> bool:
        """Whether :meth:`resized` is possible, and leaves what else changes an input its meaning."""
        return True

    @property
    def num_classes(self) -> int:
        """The number of classes, whether or not each has an input."""
        return len(self.classes)

    def with_fields(self, **changes: Any) -> Data:
        """Return the same data with other fields, such as its augmentation."""
        changed: Data = replace(self, **changes)  # type: ignore[type-var]
        return changed

    def limited(self, count: int, seed: int) -> Data:
        """Return ``count`` inputs with every class in its proportion: the same ones for the same seed."""
        return self.select(stratified_sample(self.targets, count, seed))


def described(array: Any) -> str:
    """Return the type and the shape of a tensor or an array for a message.

    >>> described(torch.zeros(2, 3))
    'float32 [2, 3]'
    """
    return f"{str(array.dtype).removeprefix('torch.')} {list(array.shape)}"
