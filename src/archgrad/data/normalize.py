"""Normalize each channel to mean 0 and standard deviation 1."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from archgrad.data.base import Data
from archgrad.errors import UserError
from archgrad.parts.fields import Range, check_fields
from archgrad.system import random_streams

__all__ = ["Normalization", "NormalizationChoice", "measure", "normalization_of"]

_LARGEST = 1e30
_READ_AT_ONCE = 1024
_MOST_MEASURED = 1000
"""So many inputs tell the mean and the deviation of data that is read lazily."""


@dataclass(frozen=True)
class Normalization:
    """The mean and standard deviation of each channel, for bytes scaled to [0, 1], and for floats as they are."""

    mean: tuple[Annotated[float, Range(-_LARGEST, _LARGEST)], ...]
    std: tuple[Annotated[float, Range(0, _LARGEST, above=True)], ...]

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.mean) != len(self.std):
            raise UserError(f"there are {len(self.mean)} means but {len(self.std)} deviations; give one per channel.")

    def __call__(self, images: Tensor) -> Tensor:
        """Return normalized images of the default dtype for bytes or floats [B, C, H, W]."""
        if images.shape[1] != len(self.mean):
            raise UserError(
                f"the images have {images.shape[1]} channels, but the normalization was measured on {len(self.mean)}; "
                f"measure it on the same data."
            )
        highest = 255 if images.dtype == torch.uint8 else 1
        scale = [1 / (highest * std) for std in self.std]
        shift = [-mean / std for mean, std in zip(self.mean, self.std, strict=True)]
        floats = images.to(torch.get_default_dtype(), copy=True)
        return floats.mul_(_per_channel(scale, images)).add_(_per_channel(shift, images))


_measured: WeakKeyDictionary[Data, dict[bytes, Normalization]] = WeakKeyDictionary()
"""What was measured: to read a thousand files again takes seconds."""

NormalizationChoice = Normalization | str | None
"""A given normalization, "measured" on the training inputs, or None: floats as they are, and bytes scaled to [0, 1]."""


def normalization_of(data: Data, indices: Tensor) -> Normalization:
    """Return the normalization that the data asks for; ``indices`` are the training inputs."""
    if data.normalization is None:
        return Normalization((0.0,) * data.channels, (1.0,) * data.channels)
    if isinstance(data.normalization, Normalization):
        return data.normalization
    known, key = _measured.setdefault(data, {}), hashlib.sha256(indices.contiguous().numpy().data).digest()
    if key not in known:
        known[key] = measure(data, indices)
    return known[key]


def measure(data: Data, indices: Tensor | None = None) -> Normalization:
    """Measure the mean and deviation of each channel of the chosen inputs (None: all of them).

    They are exact for data in memory. Data that is read lazily is measured on 1,000 of the chosen inputs, always the
    same ones. A constant channel gets deviation 1, so that it becomes 0 and not NaN.
    """
    chosen = torch.arange(len(data)) if indices is None else indices
    if len(chosen) == 0:
        raise UserError(f"no images of {data.name!r} to measure the normalization on; give at least one index.")
    if data.lazy and len(chosen) > _MOST_MEASURED:
        draws = random_streams.generator(0, "normalization")
        chosen = chosen[torch.randperm(len(chosen), generator=draws)[:_MOST_MEASURED]].sort().values
    size = max(min(_READ_AT_ONCE, _READ_AT_ONCE * 3072 // math.prod(data.shape)), 1)
    parts = (data.read(part) for part in torch.split(chosen, size))
    first = data.read(chosen[:1])
    return _measured_bytes(parts, data.channels) if first.dtype == torch.uint8 else _measured_floats(parts)


def _measured_bytes(parts: Iterable[Tensor], channels: int) -> Normalization:
    """Measure bytes exactly, by how often each value occurs in each channel: int64 [C, 256]."""
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    for images in parts:
        for channel, row in enumerate(counts):
            row += torch.bincount(images[:, channel].flatten(), minlength=256)
    values = torch.arange(256)
    pixels = int(counts[0].sum())
    moments = zip((counts * values).sum(1).tolist(), (counts * values**2).sum(1).tolist(), strict=True)
    means, deviations = [], []
    for total, squares in moments:
        means.append(total / (255 * pixels))
        deviations.append(math.sqrt(pixels * squares - total**2) / (255 * pixels) or 1.0)
    return Normalization(tuple(means), tuple(deviations))


def _measured_floats(parts: Iterable[Tensor]) -> Normalization:
    """Measure floats in double precision, part by part (Chan, Golub and LeVeque, 1983)."""
    count, mean, squares = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for inputs in parts:
        values = inputs.double().transpose(0, 1).flatten(1)
        own, size = values.mean(1), values.shape[1]
        apart = own - mean
        squares = squares + (values - own[:, None]).square_().sum(1) + apart**2 * (count * size / (count + size))
        mean, count = mean + apart * (size / (count + size)), count + size
    deviation = (squares / count).sqrt()
    deviation[deviation <= 1e-9 * mean.abs()] = 1.0
    return Normalization(tuple(mean.tolist()), tuple(deviation.tolist()))


def _per_channel(values: list[float], images: Tensor) -> Tensor:
    return torch.tensor(values, device=images.device).view(1, -1, 1, 1)
