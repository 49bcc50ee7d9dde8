"""Datasets of PyTorch and Hugging Face, and pairs of arrays, as the data of a search."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, described, no_progress
from archgrad.data.dataset import DatasetData, ImageData, Transform
from archgrad.data.inputs import TARGET_KEYS, ArrayInputs, DatasetInputs, as_inputs, as_targets, read_item
from archgrad.data.labels import numbered_classes
from archgrad.data.normalize import NormalizationChoice
from archgrad.errors import UserError, reason, shortened
from archgrad.system.random_streams import kept_random_state, seed_random_state

__all__ = ["as_data", "from_dataset"]

_log = logging.getLogger("archgrad")
_MANY_ITEMS = 10_000


def from_dataset(
    dataset: Any,
    *,
    name: str | None = None,
    targets: Any = None,
    classes: Sequence[str] | None = None,
    transform: Transform | None = None,
    augmentation: Augmentation | None = None,
    normalization: NormalizationChoice = "measured",
    progress: Callable[[int, int], None] = no_progress,
) -> Data:
    """Return the data of a search from a map-style dataset, or from a pair (inputs, targets) of tensors or arrays.

    A dataset has a length and gives items (input, target), or dictionaries as Hugging Face datasets do. An input is a
    tensor or an array [C, H, W] or [H, W] of bytes or floats, or a Pillow image. All inputs have one shape.

    ``targets`` are taken from the dataset if it offers them (``targets``, ``labels``, a column); else every item is
    read once. Integers are classes, whose names are ``classes``; floats are targets of a regression or of many labels.
    ``transform`` and ``augmentation`` change training inputs. ``normalization`` is measured on training inputs, given,
    or None. Bytes without a transform or a normalization of their own stay in memory, as an :class:`ImageData`.

    >>> data = from_dataset((torch.rand(6, 12, 8, 10), torch.arange(6) % 2))
    >>> data.shape, data.classes
    ((12, 8, 10), ('0', '1'))
    """
    title = name or _title(dataset)
    _check_kind(dataset, title)
    pair = _as_pair(dataset)
    if pair is None:
        array, known = None, _all_targets(dataset, title, targets, progress)
        classes = _offered_classes(dataset) if classes is None else classes
    else:
        array, known = as_inputs(pair[0], title), as_targets(pair[1] if targets is None else targets, title)
    count = len(dataset if array is None else array)
    if count != len(known):
        raise UserError(f"{title!r} has {count} inputs but {len(known)} targets; give one target per input.")
    known, names = _with_classes(known, classes, title)
    augmentation = augmentation or Augmentation()
    if array is not None and array.dtype == torch.uint8 and names and not transform and normalization == "measured":
        return ImageData(title, array, known, names, augmentation)
    inputs = DatasetInputs(dataset, title, known) if array is None else ArrayInputs(array)
    with kept_random_state():
        seed_random_state(0)
        first = inputs[0]
    shape = (first.shape[0], first.shape[1], first.shape[2])
    return DatasetData(title, inputs, known, names, shape, first.dtype, augmentation, normalization, transform)


def _title(dataset: Any) -> str:
    arrays = isinstance(dataset, tuple | list) and isinstance((*dataset, None)[0], Tensor | np.ndarray)
    return "arrays" if arrays else type(dataset).__name__


def _check_kind(dataset: Any, title: str) -> None:
    """Reject what has no items by number."""
    if isinstance(dataset, Mapping) and not isinstance(dataset, str):
        raise UserError(
            f"the data is a {title} of {shortened(list(dataset))}; give one of them, such as data['train']."
        )
    iterable = isinstance(dataset, IterableDataset)
    if iterable or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__") or isinstance(dataset, str):
        shown = " ".join(shortened(dataset).split())
        raise UserError(
            f"the data is {shown}; a search reads items by their number, so give a map-style dataset with "
            f"__getitem__ and __len__, a pair (inputs, targets), or the name of data (see `archgrad list data`)."
        )
    try:
        len(dataset)
    except Exception as problem:  # a user's own __len__
        raise UserError(
            f"the dataset {title!r} does not tell its length ({reason(problem, typed=True)}); correct its __len__."
        ) from problem


def _as_pair(dataset: Any) -> tuple[Any, Any] | None:
    """Return inputs and targets in memory, or None for a dataset whose items are read one by one."""
    if isinstance(dataset, TensorDataset):
        dataset = dataset.tensors
    if not isinstance(dataset, tuple | list) or not all(isinstance(one, Tensor | np.ndarray) for one in dataset[:1]):
        return None
    if len(dataset) != 2:
        raise UserError(f"the data has {len(dataset)} tensors; give two: inputs and targets.")
    return dataset[0], dataset[1]


def _all_targets(dataset: Any, title: str, given: Any, progress: Callable[[int, int], None]) -> Tensor:
    """Return the targets of a dataset: as given, as it offers them, or from its items, read one by one."""
    if len(dataset) == 0:
        raise UserError(f"the dataset {title!r} has no items; check where it reads them from.")
    known = _offered_targets(dataset, title) if given is None else as_targets(given, title)
    return _scanned_targets(dataset, title, progress) if known is None else known


def _with_classes(targets: Tensor, classes: Sequence[str] | None, title: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return targets with the names of their classes; an empty list makes floats of integers."""
    if targets.is_floating_point() or (classes is not None and len(classes) == 0):
        if classes:
            raise UserError(f"the targets of {title!r} are floats, so they have no classes; leave out classes.")
        return targets.to(torch.get_default_dtype()), ()
    return targets, tuple(map(str, classes)) if classes else numbered_classes(title, targets)


def _offered_targets(dataset: Any, title: str) -> Tensor | None:
    """Return the targets that a dataset has beside its items, None if it has none."""
    if isinstance(dataset, Subset):
        whole = _offered_targets(dataset.dataset, title)
        return None if whole is None else whole[torch.as_tensor(dataset.indices)]
    if isinstance(dataset, ConcatDataset):
        parts = [_offered_targets(part, title) for part in dataset.datasets]
        known = [part for part in parts if part is not None]
        return torch.cat(known) if len(known) == len(parts) else None
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return as_targets(dataset.tensors[1], title)
    if column := _target_column(dataset):
        plain = dataset.with_format(None) if hasattr(dataset, "with_format") else dataset
        return as_targets(list(plain[column]), title)
    if getattr(dataset, "target_transform", None) is not None:
        return None
    for place in ("targets", "labels"):
        try:
            offered = getattr(dataset, place, None)
        except Exception:  # noqa: S112 - a user's property; the items have the targets too
            continue
        if isinstance(offered, Tensor | np.ndarray | list | tuple) and len(offered) == len(dataset):
            return as_targets(offered, title)
    return None


def _target_column(dataset: Any) -> str | None:
    """Return the column of a Hugging Face dataset that has the targets."""
    columns = getattr(dataset, "column_names", None)
    if not hasattr(dataset, "features") or not isinstance(columns, list):
        return None
    return next((column for column in TARGET_KEYS if column in columns), None)


def _offered_classes(dataset: Any) -> Sequence[str] | None:
    """Return the names of the classes that a dataset has, None if it has none."""
    if isinstance(dataset, Subset):
        return _offered_classes(dataset.dataset)
    if column := _target_column(dataset):
        names = getattr(dataset.features[column], "names", None)
        return names if isinstance(names, list) and names else None
    names = getattr(dataset, "classes", None)
    usable = isinstance(names, list | tuple) and bool(names) and all(isinstance(one, str) for one in names)
    return names if usable else None


def _scanned_targets(dataset: Any, title: str, progress: Callable[[int, int], None]) -> Tensor:
    """Read every item once for its target, and check its input."""
    total, found = len(dataset), list[Tensor]()
    if total >= _MANY_ITEMS:
        _log.warning(
            "reading all %d items of %r for their targets; from_dataset(…, targets=…) saves this.", total, title
        )
    with kept_random_state():
        for index in range(total):
            seed_random_state(index)
            given, target = read_item(dataset, index, title)
            as_inputs(given, title, index)
            found.append(as_targets(target, title, index))
            if found[-1].shape != found[0].shape or found[-1].dtype != found[0].dtype:
                raise UserError(
                    f"the target of item {index} of {title!r} is {described(found[-1])}, but that of item 0 is "
                    f"{described(found[0])}; make all of them alike."
                )
            progress(index + 1, total)
    return torch.stack(found)


def as_data(data: Any) -> Data | str:
    """Return data by name or as it is, and any other object as data that is read from it."""
    return data if isinstance(data, str | Data) else from_dataset(data)
