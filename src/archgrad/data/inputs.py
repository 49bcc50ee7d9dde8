"""Where lazily read inputs come from: one reader for arrays, one for datasets of any kind."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from archgrad.data.base import described
from archgrad.errors import UserError, shortened

__all__ = [
    "INPUT_KEYS",
    "TARGET_KEYS",
    "ArrayInputs",
    "DatasetInputs",
    "Inputs",
    "as_input",
    "as_target",
    "kept_random_state",
    "seed_random_state",
]

INPUT_KEYS = ("image", "img", "pixel_values", "input", "inputs", "x")
TARGET_KEYS = ("label", "labels", "fine_label", "target", "targets", "y")
"""The keys of items that are dictionaries, as those of Hugging Face datasets are."""


class Inputs(ABC):
    """Inputs by number.

    ``lazy`` tells whether reading one takes work, and ``random`` whether it may draw from the global generators.
    """

    lazy: ClassVar[bool] = True
    random: ClassVar[bool] = False

    @abstractmethod
    def __getitem__(self, index: int) -> Tensor:
        """Read input ``index`` [C, H, W], bytes or floats."""

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
        if not _same(as_target(target, index, self.name), self.targets[index]):
            raise UserError(
                f"item {index} of {self.name!r} has the target {shortened(target)}, but the targets known before are "
                f"{shortened(self.targets[index].tolist())} there; give targets=… as the items have them."
            )
        return as_input(given, index, self.name)


def read_item(dataset: Any, index: int, name: str) -> tuple[Any, Any]:
    """Read an item of a dataset: its input and its target."""
    try:
        item = dataset[index]
    except (MemoryError, UserError):
        raise
    except Exception as problem:  # whatever a user's dataset raises
        reason = f"{type(problem).__name__}: {problem}".splitlines()[0][:120].rstrip(". ")
        raise UserError(f"item {index} of {name!r} cannot be read ({reason}); correct the dataset.") from problem
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


def as_input(given: Any, index: int, name: str) -> Tensor:
    """Return an input as a tensor [C, H, W] of bytes or floats: of a tensor, an array or an image of Pillow."""
    if hasattr(given, "mode") and hasattr(given, "convert"):
        given = _of_pillow(given, index, name)
    elif isinstance(given, np.ndarray):
        given = tensor_of(given)
    if not isinstance(given, Tensor):
        raise UserError(
            f"input {index} of {name!r} is {_shown(given)}; give a tensor or an array [channels, height, width], or a "
            f"Pillow image."
        )
    value = given[None].detach().cpu() if given.ndim == 2 else given.detach().cpu()
    if value.ndim != 3 or 0 in value.shape or not (value.dtype == torch.uint8 or value.is_floating_point()):
        raise UserError(
            f"input {index} of {name!r} is {described(value)}; give bytes (uint8) or floats [channels, height, width]."
        )
    check_layout(value.shape, value.dtype, f"input {index} of {name!r}")
    if value.is_floating_point() and not bool(value.isfinite().all()):
        raise UserError(f"input {index} of {name!r} has NaN or infinite values; correct or remove it.")
    return value


def _of_pillow(image: Any, index: int, name: str) -> Tensor:
    from archgrad.data.sources.decode import image_tensor

    try:
        return image_tensor(image)
    except MemoryError:
        raise
    except Exception as problem:  # Pillow decodes an image only now, and raises many kinds of error on damaged files
        raise UserError(
            f"input {index} of {name!r} cannot be decoded ({shortened(str(problem))}); replace it."
        ) from problem


def check_layout(shape: Sequence[int], dtype: torch.dtype, what: str) -> None:
    """Reject bytes [H, W, 3], which would be read as an image of H channels."""
    if dtype == torch.uint8 and shape[-1] in (3, 4) and shape[-3] > 4:
        height, width, channels = shape[-3:]
        raise UserError(
            f"{what} has the shape {list(shape)}, which looks like [height, width, channels]; move the channels to the "
            f"front: [{channels}, {height}, {width}] (permute(2, 0, 1))."
        )


def as_target(value: Any, index: int, name: str) -> Tensor:
    """Return a target as a tensor: int64 [] for a class, else floats [] or [K]."""
    try:
        target = tensor_of(value) if isinstance(value, np.ndarray) else torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UserError(
            f"the target of item {index} of {name!r} is {_shown(value)}; give the number of its class (0, 1, …) or "
            f"floats."
        ) from None
    target = target[0] if target.shape == (1,) and not target.is_floating_point() else target
    if target.ndim > 1 or target.is_complex() or target.numel() == 0:
        raise UserError(f"the target of item {index} of {name!r} is {described(target)}; give a number or a vector.")
    if target.ndim == 0 and not target.is_floating_point():
        return target.long()
    target = target.to(torch.get_default_dtype())
    if not bool(target.isfinite().all()):
        raise UserError(f"the target of item {index} of {name!r} has NaN or infinite values; correct or remove it.")
    return target


def tensor_of(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor of an array, without a copy where PyTorch can use its memory."""
    if array.dtype.kind not in "buif":
        raise UserError(f"an array is {described(array)}; give bytes or floats, and integers for classes.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    unsigned = native.astype(np.int64) if native.dtype.kind == "u" and native.dtype.itemsize > 1 else native
    usable = unsigned if all(step >= 0 for step in unsigned.strides) else unsigned.copy()
    return torch.as_tensor(usable if usable.flags.writeable or usable.nbytes > 1 << 26 else usable.copy())


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def _shown(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return described(value)
    return f"{shortened(value, longest=60)} ({type(value).__name__})"


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Restore the global generators of PyTorch (on the CPU), NumPy and Python after the block."""
    ours, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(ours)
        np.random.set_state(numpys)
        random.setstate(pythons)


def seed_random_state(seed: int) -> None:
    """Seed the global generators of PyTorch (on the CPU), NumPy and Python."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
