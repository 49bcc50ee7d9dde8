"""Datasets of all kinds, for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from image_files import Image
from torch import Tensor
from torch.utils.data import Dataset


class Pairs(Dataset[Any]):
    """Items (input, target), without anything else."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.outputs = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.inputs[index], self.outputs[index]


class Pictures(Pairs):
    """Items (Pillow image, number of its class), with targets and classes, as those of torchvision."""

    classes = ("a", "b", "c")

    @property
    def targets(self) -> list[int]:
        return self.outputs.tolist()

    def __getitem__(self, index: int) -> Any:
        pixels = self.inputs[index]
        array = pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)
        return Image.fromarray(array.contiguous().numpy()), int(self.outputs[index])


class _ClassLabel:
    names = ("a", "b", "c")

    def __init__(self) -> None:
        self.names = list(type(self).names)  # type: ignore[assignment]


class Column:
    """A column of a Hugging Face dataset, which version 4 reads lazily."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


class HuggingFace(Pictures):
    """As a Dataset of the package ``datasets``: columns by name, items as dictionaries."""

    column_names = ["image", "label"]  # noqa: RUF012

    @property
    def features(self) -> dict[str, Any]:
        return {"image": object(), "label": _ClassLabel()}

    def with_format(self, kind: str | None) -> HuggingFace:
        assert kind is None
        return self

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            assert index == "label", "to read all images for their labels would take long"
            return Column(self.outputs.tolist())
        picture, label = super().__getitem__(index)
        return {"image": picture, "label": label}
