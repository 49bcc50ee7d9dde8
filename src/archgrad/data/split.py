"""Split the training images between the weights and the architecture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.data.labels import indices_by_class, proportional_shares
from archgrad.errors import UserError, shortened
from archgrad.parts.fields import Probability, checked
from archgrad.system import random_streams
from archgrad.training.schedule import Level

__all__ = ["HALVES", "Split", "parse_split", "split", "split_fractions"]

HALVES = (0.5, 0.5)


@dataclass(frozen=True, eq=False)
class Split:
    """Sorted indices (int64) of the images that train the ``weights``, train the ``architecture``, or are ``held_out``.

    Held-out images measure a search and train no weights. In a single-level search no step reads them; in a bilevel one
    they belong to the architecture's images.
    """

    weights: Tensor
    architecture: Tensor
    held_out: Tensor


@checked
def split(
    labels: Tensor,
    fractions: tuple[float, float] | None = HALVES,
    seed: int = 0,
    held_out: Probability = 0.0,
    classes: Sequence[str] = (),
) -> Split:
    """Split labels [N] into two disjoint parts with the class proportions of the whole.

    Targets that are no classes, floats [N] or [N, K], are split at random. Error messages name the ``classes``, if they
    are given.

    ``None`` is for single-level searches: both parts are all the data except the share ``held_out``.

    >>> parts = split(torch.arange(40) % 2, (0.5, 0.25))
    >>> len(parts.weights), len(parts.architecture)
    (20, 10)
    >>> single = split(torch.arange(40) % 2, None, held_out=0.1)
    >>> len(single.weights), len(single.held_out)
    (36, 4)
    """
    if fractions is None:
        everything = torch.arange(len(labels))
        unseen = _sample(labels, everything, held_out * len(labels), seed, leave=1)
        seen = everything[~torch.isin(everything, unseen)]
        return Split(seen, seen, unseen)
    _check_fractions(*fractions)
    groups = indices_by_class(labels, seed, "split")
    counts = [len(group) for group in groups]
    weights_size, architecture_size = _sizes(len(labels), fractions)
    _check_sizes(labels, groups, {"weights": weights_size, "architecture": architecture_size}, classes)
    first = proportional_shares(weights_size, counts, [count - 1 for count in counts])
    left = [count - used for count, used in zip(counts, first, strict=True)]
    second = proportional_shares(architecture_size, counts, left)
    parts = [torch.split(group, [a, b, len(group) - a - b]) for group, a, b in zip(groups, first, second, strict=True)]
    architecture = _joined([part[1] for part in parts])
    unseen = _sample(labels, architecture, held_out * len(labels), seed)
    return Split(_joined([part[0] for part in parts]), architecture, unseen)


def _sample(labels: Tensor, indices: Tensor, count: float, seed: int, leave: int = 0) -> Tensor:
    """Choose ``count`` images, in class proportions if there are enough, and leave ``leave`` of each class."""
    groups = [indices[group] for group in indices_by_class(labels[indices], seed, "held-out")]
    counts = [len(group) for group in groups]
    most = [max(count - leave, 0) for count in counts]
    size = min(round(count), sum(most))
    if size >= len(groups):
        sizes = proportional_shares(size, counts, most)
    else:  # too few for all classes: one image from some of them
        order = torch.randperm(len(groups), generator=random_streams.generator(seed, "held-out", "classes")).tolist()
        able = [place for place in order if most[place]][:size]
        sizes = [int(place in able) for place in range(len(groups))]
    return _joined([group[:own] for group, own in zip(groups, sizes, strict=True)])


def parse_split(text: str) -> tuple[float, float] | None:
    """Read ``"0.5:0.5"`` (weights : architecture) or ``"none"`` (single level).

    >>> parse_split("0.1:0.025"), parse_split("none")
    ((0.1, 0.025), None)
    """
    if text.strip().lower() == "none":
        return None
    parts = text.split(":")
    try:
        weights, architecture = map(float, parts)
    except ValueError:
        raise UserError(
            f"the split {text!r} is not two fractions; write weights:architecture such as 0.5:0.5, "
            f"or set schedule.level=single to train both on all the data."
        ) from None
    _check_fractions(weights, architecture)
    return weights, architecture


def split_fractions(split: tuple[float, float] | str | None, level: Level) -> tuple[float, float] | None:
    """Return how the data is divided: as asked for, or as the level of the search needs it.

    >>> split_fractions(None, "bilevel"), split_fractions("0.1:0.025", "bilevel"), split_fractions(None, "single")
    ((0.5, 0.5), (0.1, 0.025), None)
    """
    if split is None:
        return HALVES if level == "bilevel" else None
    fractions = parse_split(split) if isinstance(split, str) else (split[0], split[1])
    if fractions is None and level == "bilevel":
        raise UserError(
            "the split is none, but a bilevel search trains the architecture on images of its own; "
            "give two fractions such as 0.5:0.5, or set schedule.level=single."
        )
    if fractions is not None and level == "single":
        raise UserError(
            f"the split is {fractions[0]:g}:{fractions[1]:g}, but a single-level search trains weights and "
            f"architecture on all the data; leave it out, or set schedule.level=bilevel."
        )
    return fractions


def _check_fractions(weights: float, architecture: float) -> None:
    shown = f"{weights:g}:{architecture:g}"
    if not (weights > 0 and architecture > 0 and math.isfinite(weights + architecture)):
        raise UserError(f"the split {shown} has a part without images; both fractions must be above 0, as in 0.5:0.5.")
    if weights + architecture > 1 + 1e-9:
        raise UserError(
            f"the split {shown} takes {weights + architecture:g} times the data; the fractions may sum to 1 at most, "
            f"or set schedule.level=single to train both on all the data."
        )


def _sizes(count: int, fractions: tuple[float, float]) -> tuple[int, int]:
    weights = round(fractions[0] * count)
    both = round((fractions[0] + fractions[1]) * count)
    return weights, both - weights


def _check_sizes(labels: Tensor, groups: list[Tensor], sizes: dict[str, int], classes: Sequence[str]) -> None:
    for group in groups:
        if len(group) < 2:
            label = int(labels[group[0]]) if labels.ndim == 1 else 0
            name = shortened(classes[label]) if classes else label
            raise UserError(
                f"class {name} has one image, so it cannot be in both parts of the split; "
                f"add images, leave the class out, or set schedule.level=single."
            )
    for name, size in sizes.items():
        if size < len(groups):
            raise UserError(
                f"the {name} part of the split would have {size} of {len(labels)} images for {len(groups)} classes; "
                f"use a larger fraction or more data, so that each class has one there."
            )


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts).sort().values
