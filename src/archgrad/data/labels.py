"""Labels: checks, names of classes, and stratified samples, in which every class keeps its share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from archgrad.errors import UserError, shown_names
from archgrad.system import random_streams

__all__ = ["check_labels", "indices_by_class", "numbered_classes", "proportional_shares", "stratified_sample"]


def check_labels(name: str, labels: Tensor, classes: Sequence[str], every: bool = False) -> None:
    """Reject labels [N] that are empty or outside the classes, or do not have ``every`` class."""
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
    counts = torch.bincount(labels, minlength=len(classes)).tolist() if every else []
    if empty := [classes[number] for number, count in enumerate(counts) if count == 0]:
        raise UserError(
            f"the data {name!r} has no images of {len(empty)} of its {len(classes)} classes ({shown_names(empty)}); "
            f"add images, or number the classes 0, 1, 2, … without gaps (numpy.unique(labels, return_inverse=True)[1])."
        )


def numbered_classes(name: str, labels: Tensor) -> tuple[str, ...]:
    """Name the classes "0", "1", … up to the highest of the labels [N]."""
    highest = int(labels.max()) if len(labels) else -1
    # Otherwise a stray identifier in the label column would make billions of classes.
    if highest >= max(len(labels), 1000):
        raise UserError(
            f"the data {name!r} is mislabeled: it has {len(labels)} images but a label {highest}; "
            f"number the classes 0, 1, 2, …"
        )
    return tuple(map(str, range(highest + 1)))


def indices_by_class(labels: Tensor, seed: int, stream: str) -> list[Tensor]:
    """Return a shuffled tensor of indices for each class that occurs in ``labels`` [N].

    Targets that are no classes, floats [N] or [N, K], make one group.
    """
    if labels.is_floating_point() or labels.dim() > 1:
        labels = torch.zeros(len(labels), dtype=torch.int64)
    order = labels.argsort(stable=True)
    values, counts = torch.unique(labels, return_counts=True)
    groups = torch.split(order, counts.tolist())
    return [
        group[torch.randperm(len(group), generator=random_streams.generator(seed, stream, int(value)))]
        for value, group in zip(values, groups, strict=True)
    ]


def proportional_shares(total: int, weights: Sequence[int], capacities: Sequence[int]) -> list[int]:
    """Divide ``total`` in proportion to the weights; each share is at least 1 and at most its capacity.

    >>> proportional_shares(11, weights=[50, 50, 100], capacities=[50, 50, 100])
    [3, 3, 5]
    """
    whole = sum(weights)
    sizes = [min(max(1, total * weight // whole), most) for weight, most in zip(weights, capacities, strict=True)]
    while missing := total - sum(sizes):
        step = 1 if missing > 0 else -1
        free = [index for index, most in enumerate(capacities) if 1 <= sizes[index] + step <= most]
        sizes[max(free, key=lambda index: step * (total * weights[index] - whole * sizes[index]))] += step
    return sizes


def stratified_sample(labels: Tensor, count: int, seed: int) -> Tensor:
    """Return the sorted indices of ``count`` of the labels [N], in class proportions."""
    groups = indices_by_class(labels, seed, "limit")
    counts = [len(group) for group in groups]
    if count > len(labels):
        raise UserError(f"the limit is {count} images, but the data has {len(labels)}; give at most that.")
    if count < len(groups):
        raise UserError(
            f"the limit is {count} images, but the data has {len(groups)} classes; "
            f"use a limit of at least {len(groups)}, one image per class."
        )
    sizes = proportional_shares(count, counts, counts)
    chosen = [group[:size] for group, size in zip(groups, sizes, strict=True)]
    return torch.cat(chosen).sort().values
