"""Inputs and targets of any kind as tensors, and the readers that lazily read data takes its inputs from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from archgrad.data.base import described
from archgrad.errors import UserError, reason, shortened
from archgrad.system.random_streams import kept_random_state, seed_random_state

__all__ = ["TARGET_KEYS", "ArrayInputs", "DatasetInputs", "Inputs", "as_inputs", "as_targets", "read_item"]

INPUT_KEYS = ("image", "img", "pixel_values", "input", "inputs", "x")
TARGET_KEYS = ("label", "labels", "fine_label", "target", "targets", "y")
"""The keys of items that are dictionaries, as those of Hugging Face datasets are."""
_ROWS_AT_ONCE = 1024


class Inputs(ABC):
    """Inputs by number.

    ``lazy`` tells whether reading one takes work, and ``random`` whether it may draw from the global generators.
    """

    lazy: ClassVar[bool] = True
    random: ClassVar[bool] = False

    @abstractmethod
    def __getitem__(self, index: int) -> Tensor:
        """Read input ``index`` [C, H, W], bytes or floats."""

    def file_of(self, index: int) -> str:
        """Return the name of an input; empty where it has none."""
        return ""

    def fingerprint(self, indices: Tensor) -> bytes:
        """Return what tells these inputs from others; by default the content of eight of them."""
        places = torch.linspace(0, len(indices) - 1, min(len(indices), 8)).long()
        with kept_random_state():
            seed_random_state(0)
            return b"".join(self[index].contiguous().numpy().tobytes() for index in indices[places].tolist())


class ArrayInputs(Inputs):
    """Inputs in a tensor [N, C, H, W]."""

    lazy = False

    def __init__(self, array: Tensor) -> None:
        self.array = array

    def __getitem__(self, index: int) -> Tensor:
        return self.array[index]


class DatasetInputs(Inputs):
    """Inputs of a map-style dataset whose items are (input, target) or dictionaries.

    The items are compared with the ``targets`` that were read before the search.
    """

    random = True

    def __init__(self, dataset: Any, name: str, targets: Tensor) -> None:
        self.dataset, self.name, self.targets, self.length = dataset, name, targets, len(dataset)

    def __getitem__(self, index: int) -> Tensor:
        if len(self.dataset) != self.length:
            raise UserError(
                f"the dataset {self.name!r} had {self.length} items at first and has {len(self.dataset)} now, so item "
                f"{index} may be another one; give a dataset that keeps its length."
            )
        given, target = read_item(self.dataset, index, self.name)
        found, known = as_targets(target, self.name, index), self.targets[index]
        if found.shape != known.shape or not bool((found == known).all()):
            raise UserError(
                f"item {index} of {self.name!r} has the target {shortened(target)}, but the targets known before are "
                f"{shortened(known.tolist())} there; give targets=… as the items have them."
            )
        return as_inputs(given, self.name, index)


def read_item(dataset: Any, index: int, name: str) -> tuple[Any, Any]:
    """Read an item of a dataset: its input and its target."""
    try:
        item = dataset[index]
    except (MemoryError, UserError):
        raise
    except Exception as problem:  # whatever a user's dataset raises
        raise UserError(
            f"item {index} of {name!r} cannot be read ({reason(problem, typed=True)}); correct the dataset."
        ) from problem
    if isinstance(item, Mapping):
        keys = [next((key for key in known if key in item), None) for known in (INPUT_KEYS, TARGET_KEYS)]
        if None not in keys:
            return item[keys[0]], item[keys[1]]
    elif isinstance(item, Sequence) and not isinstance(item, str | bytes) and len(item) == 2:
        return item[0], item[1]
    raise UserError(
        f"item {index} of {name!r} is {_shown(item)}; a dataset must give pairs (input, target), or dictionaries such "
        f'as {{"image": …, "label": …}}.'
    )


def as_inputs(given: Any, name: str, index: int | None = None) -> Tensor:
    """Return input ``index`` [C, H, W] of some data, or without an index all its inputs [N, C, H, W].

    They are bytes or finite floats on the CPU, made of a tensor, an array or an image of Pillow.
    """
    what = f"the tensor of inputs of {name!r}" if index is None else f"input {index} of {name!r}"
    layout = "[N, channels, height, width]" if index is None else "[channels, height, width]"
    if hasattr(given, "mode") and hasattr(given, "convert"):
        given = _of_pillow(given, what)
    elif isinstance(given, np.ndarray):
        given = _tensor_of(given)
    if not isinstance(given, Tensor):
        raise UserError(f"{what} is {_shown(given)}; give a tensor or an array {layout}, or a Pillow image.")
    value = given.detach().cpu()
    axes = 4 if index is None else 3
    if value.ndim == axes - 1 >= 2:
        value = value.unsqueeze(-3)  # gray images without an axis of channels
    if value.ndim != axes or 0 in value.shape or not (value.dtype == torch.uint8 or value.is_floating_point()):
        raise UserError(f"{what} is {described(given)}; give bytes (uint8) or floats {layout}.")
    channels, height, width = value.shape[-3:]
    if value.dtype == torch.uint8 and width in (3, 4) and channels > 4:
        raise UserError(
            f"{what} has the shape {list(value.shape)}, which looks like [height, width, channels]; move the channels "
            f"to the front: [{width}, {channels}, {height}] (permute(2, 0, 1))."
        )
    _check_finite(value, "input", name, index)
    return value


def as_targets(given: Any, name: str, index: int | None = None) -> Tensor:
    """Return target ``index`` of some data, or without an index all its targets [N] or [N, K].

    Classes are int64, and all else finite floats. One target is [] or [K].
    """
    what = f"the list of targets of {name!r}" if index is None else f"the target of item {index} of {name!r}"
    try:
        found = _tensor_of(given) if isinstance(given, np.ndarray) else torch.as_tensor(given)
    except UserError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UserError(
            f"{what} is {_shown(given)}; give numbers: those of the classes (0, 1, …), or floats."
        ) from None
    found, axes = found.detach().cpu(), 1 if index is None else 0
    if found.ndim == axes + 1 and found.shape[axes] == 1 and not found.is_floating_point():
        found = found.squeeze(axes)
    if found.ndim not in (axes, axes + 1) or found.is_complex() or 0 in found.shape[axes:]:
        allowed = "[N] or [N, K]" if index is None else "a number or a vector"
        raise UserError(f"{what} is {described(found)}; give {allowed}.")
    if found.ndim == axes and not found.is_floating_point():
        return found.long()
    found = found.to(torch.get_default_dtype())
    _check_finite(found, "target", name, index)
    return found


def _check_finite(values: Tensor, kind: str, name: str, index: int | None) -> None:
    """Reject NaN and infinity; name the first input or target that has them."""
    if not values.is_floating_point():
        return
    rows = values if index is None else values[None]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        finite = part.isfinite().view(len(part), -1).all(1)
        if not bool(finite.all()):
            number = start + int(finite.long().argmin()) if index is None else index
            raise UserError(f"{kind} {number} of {name!r} has NaN or infinite values; correct or remove it.")


def _of_pillow(image: Any, what: str) -> Tensor:
    from archgrad.data.sources.decode import image_tensor

    try:
        return image_tensor(image)
    except MemoryError:
        raise
    except Exception as problem:  # Pillow decodes an image only now, and raises many kinds of error on damaged files
        raise UserError(f"{what} cannot be decoded ({reason(problem, typed=True)}); replace it.") from problem


def _tensor_of(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor of an array, without a copy where PyTorch can use its memory."""
    if array.dtype.kind not in "buif":
        raise UserError(f"an array is {described(array)}; give bytes or floats, and integers for classes.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    unsigned = native.astype(np.int64) if native.dtype.kind == "u" and native.dtype.itemsize > 1 else native
    usable = unsigned if all(step >= 0 for step in unsigned.strides) else unsigned.copy()
    return torch.as_tensor(usable if usable.flags.writeable or usable.nbytes > 1 << 26 else usable.copy())


def _shown(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return described(value)
    return f"{shortened(value, longest=60)} ({type(value).__name__})"
