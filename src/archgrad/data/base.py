"""What a search reads: inputs by number, and a target for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from archgrad.data.stratified_sampling import stratified_sample
from archgrad.errors import UserError
from archgrad.system.random_streams import StreamKey

if TYPE_CHECKING:
    from archgrad.data.augment import Augmentation
    from archgrad.data.dataset import Origin
    from archgrad.data.normalize import NormalizationChoice

__all__ = ["Data", "Shape", "check_labels", "described"]

Shape = tuple[int, int, int]


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

    if TYPE_CHECKING:  # fields of the subclasses, which are frozen dataclasses

        @property
        def name(self) -> str: ...  # noqa: D102
        @property
        def targets(self) -> Tensor: ...  # noqa: D102
        @property
        def classes(self) -> tuple[str, ...]: ...  # noqa: D102
        @property
        def shape(self) -> Shape: ...  # noqa: D102
        @property
        def augmentation(self) -> Augmentation: ...  # noqa: D102
        @property
        def normalization(self) -> NormalizationChoice: ...  # noqa: D102
        @property
        def lazy(self) -> bool: ...  # noqa: D102
        @property
        def origin(self) -> Origin | None: ...  # noqa: D102

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
        """Return a hash that tells this data from other data: 16 letters."""

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


def check_labels(name: str, labels: Tensor, classes: Sequence[str]) -> None:
    """Reject labels [N] that are empty or outside the classes."""
    if len(labels) == 0:
        raise UserError(f"the data {name!r} has no images; check its path.")
    wrong = ((labels < 0) | (labels >= len(classes))).nonzero()
    if len(wrong):
        first = int(wrong[0])
        raise UserError(
            f"the data {name!r} is mislabeled: image {first} has the label {int(labels[first])}, but the classes are "
            f"0 to {len(classes) - 1} ({len(wrong)} such images in all); fix the labels."
        )
    if len(classes) < 2:
        raise UserError(f"the data {name!r} has {len(classes)} class; give data with at least 2.")


def described(array: Any) -> str:
    """Return the type and the shape of a tensor or an array for a message.

    >>> import torch
    >>> described(torch.zeros(2, 3))
    'float32 [2, 3]'
    """
    return f"{str(array.dtype).removeprefix('torch.')} {list(array.shape)}"
