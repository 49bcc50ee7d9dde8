"""Stratified sampling: every class keeps its share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.system import random_streams

__all__ = ["indices_by_class", "proportional_shares", "stratified_sample"]


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
