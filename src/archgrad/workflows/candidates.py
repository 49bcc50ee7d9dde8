"""The candidates of a fit: whole descriptions of trainings, sized by the time that is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.models import Model
from archgrad.parts.fields import Count, check_fields
from archgrad.spaces import MOBILENET, RESNET, Genotype, MobileNet, ResNet, SearchSpace
from archgrad.system.amounts import counted
from archgrad.workflows.length import Length
from archgrad.workflows.limits import Limits, cost_of, widest_within
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.training import Training

__all__ = [
    "BEST_CELL",
    "SPACE",
    "Candidate",
    "network_candidates",
    "pretrained",
    "reference",
    "shape_of",
    "variants_of",
]

SPACE = "nasbench201"
BEST_CELL = Genotype.parse(
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
)
"""The best cell of the NAS-Bench-201 table on CIFAR-10: 94.37 % after 200 epochs."""
_RATE = 0.05
_STEP, _NARROWEST, _WIDEST = 8, 16, 128
"""Widths are multiples of the first, which CPUs compute fast; those below the second are hardly faster."""
_SMALL_IMAGE, _LARGE_IMAGE = 24, 96
"""Images below the first side are not halved; a MobileNet takes those from the second side on in strides of 32."""
_DEPTHWISE = 1 / 4
"""The multiply-adds of a MobileNet that trains in the time of another network, relative to that one's, on CPUs."""


@dataclass(frozen=True)
class Candidate:
    """A network at its size, the size of its images, and the settings of its training that differ from the preset.

    Its first weights are those of the model in the folder ``start_from``, as far as they fit, if one is given.
    """

    space: str
    genotype: str
    channels: Count
    cells: Count
    image_size: Count
    searched: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    start_from: str = ""
    stem: str = "cifar"

    def __post_init__(self) -> None:
        check_fields(self, "{} of a candidate")
        self.sized.check(self.parsed)

    @classmethod
    def of(cls, content: Any) -> Candidate:
        """Read a candidate from plain data."""
        try:
            return cls(**content)
        except TypeError as error:
            raise UserError(f"a candidate of the fit is wrong ({error}); start a new fit in another folder.") from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @property
    def parsed(self) -> Genotype:
        """The genotype."""
        return Genotype.parse(self.genotype)

    @property
    def sized(self) -> SearchSpace:
        """The space at the size of the network."""
        return SingleArchitecture(of=self.space, channels=self.channels, cells=self.cells, stem=self.stem).base

    @property
    def network(self) -> str:
        """The network in words."""
        if self.start_from:
            return f"the model in {self.start_from}, {self.image_size} pixels"
        cell = "searched cell" if self.searched else "best cell of NAS-Bench-201"
        kinds = {ResNet.name: f"ResNet-{6 * self.cells + 2}", MobileNet.name: f"MobileNetV2 of {self.cells} blocks"}
        kind = kinds.get(self.space, f"{cell}, {counted(self.cells, 'cell')} per stage")
        return f"{kind}, {counted(self.channels, 'channel')}, {self.image_size} pixels"

    def __str__(self) -> str:
        changed = ", ".join(f"{path}={value}" for path, value in self.settings.items())
        return f"{self.network}{changed and f', {changed}'}"

    def training(self, data: Data | str, length: Length, options: Mapping[str, Any]) -> Training:
        """Describe its training on images, which have its size, for so long; no image is held out."""
        settings = {**options.get("settings", {}), **self.settings}
        given = {**options, "settings": settings, "epochs": length.epochs, "held_out": 0.0}
        given |= {"channels": self.channels, "cells": self.cells, "start_from": self.start_from or None}
        return Training.of(self.sized, self.genotype, data, **given, stem=self.stem)


def pretrained(folder: Path | str, shape: Mapping[str, Any], limits: Limits) -> Candidate:
    """Return the network of a trained model, which begins with its weights; reject one above the limits."""
    model, home = Model.load(folder), str(Path(folder).resolve())
    space, size = model.space, model.preprocessing.image_size
    found = Candidate(
        space.name, str(model.genotype), space.channels, getattr(space, space.depth_knob), size, start_from=home,
        stem=getattr(space, "stem", "cifar"),
    )  # fmt: skip
    if problem := limits.exceeded(found.sized, found.parsed, {**shape, "image_size": size}):
        raise UserError(f"start_from is {home}, whose network takes {problem}; give another model or higher limits.")
    return found


def shape_of(data: Data, outputs: int) -> dict[str, Any]:
    """Return what a network with so many outputs needs to know of its images."""
    return {"num_classes": outputs, "input_channels": data.channels, "image_size": data.image_size}


def reference(image_size: int, cells: int = 2) -> Candidate:
    """Return a narrow ResNet; the steps of ResNet-14 are measured first."""
    return Candidate(ResNet.name, str(RESNET), 16, cells, image_size)


def network_candidates(
    found: Sequence[Genotype],
    shape: Mapping[str, Any],
    work: float,
    limits: Limits,
    count: int,
    channels: int | None = None,
    cells: int | None = None,
) -> list[Candidate]:
    """Return up to ``count`` networks, the most promising first: cells, ResNets and MobileNets.

    ``shape`` is that of :func:`shape_of`. Each takes about the time of ``work`` multiply-adds of a ResNet for one
    image, some less or more, and all keep the limits. Given ``channels`` and ``cells`` per stage are those of all
    networks; there is then no MobileNet.
    """
    known = [one for one in found if one != BEST_CELL]
    resnet, best = (ResNet.name, RESNET, False), (SPACE, BEST_CELL, False)
    mobile = (MobileNet.name, MOBILENET, False)
    searched = (SPACE, known[0], True) if known else best
    whole: int = shape["image_size"]
    depth = _depth(work, {**shape})
    halved = whole // 2 if whole >= _SMALL_IMAGE else whole
    wanted = [
        (resnet, depth, 1.0, None), (searched, 1, 1.0, None), (best, 1, 1.0, None), (mobile, 8, _DEPTHWISE, None),
        (resnet, 2, 1.0, None), (resnet, 2, 1.0, halved), (searched, 2, 1.0, None), (resnet, 1, 1 / 3, None),
        (searched, 1, 1.0, halved), (mobile, 16, _DEPTHWISE, None), (best, 2, 1.0, None), (resnet, 1, 2.0, None),
        *(((SPACE, one, True), 1, 1.0, None) for one in known[1:]),
    ]  # fmt: skip
    if channels or cells:
        wanted = [(kind, cells or 1, 1.0, None) for kind in (searched, resnet, best)]
    chosen: dict[str, Candidate] = {}
    for kind, blocks, share, size in wanted:
        if len(chosen) < count:
            one = _sized(*kind, blocks, share * work, {**shape, "image_size": size or whole}, limits, channels)
            chosen |= {} if one is None else {str(one): one}
    if not chosen:
        least = limits.exceeded(replace(reference(whole, 1), channels=1).sized, RESNET, {**shape})
        raise UserError(f"no width keeps the limits: a ResNet-8 with 1 channel takes {least}; give higher limits.")
    return list(chosen.values())


def _depth(work: float, shape: dict[str, Any]) -> int:
    """Return the blocks per stage of the ResNet that suits so many multiply-adds: shallow, if even it is narrow then.

    >>> [_depth(work, {"num_classes": 10, "input_channels": 3, "image_size": 32}) for work in (9e7, 25e6, 8e6)]
    [3, 2, 1]
    """
    narrow = {cells: reference(shape["image_size"], cells).sized for cells in (3, 2, 1)}
    sizes = {cells: cost_of(space, RESNET, shape).multiply_adds for cells, space in narrow.items()}
    return min(sizes, key=lambda cells: abs(math.log(work / sizes[cells])))


def _sized(
    space: str, genotype: Genotype, searched: bool, cells: int, work: float, shape: dict[str, Any], limits: Limits,
    channels: int | None,
) -> Candidate | None:  # fmt: skip
    """Return the network with about so many multiply-adds; None if it keeps the limits at no width."""
    size = shape["image_size"]
    stem = "imagenet" if space == MobileNet.name and size >= _LARGE_IMAGE else "cifar"
    narrow = Candidate(space, str(genotype), 16, cells, size, searched, stem=stem)
    if channels is None:
        wider = 16 * (work / cost_of(narrow.sized, genotype, shape).multiply_adds) ** 0.5  # it grows with the square
        channels = min(max(round(wider / _STEP) * _STEP, _NARROWEST), _WIDEST)
    try:
        kept = widest_within(limits, replace(narrow, channels=channels).sized, genotype, shape)
    except UserError:
        return None
    return replace(narrow, channels=kept.channels)


def variants_of(winner: Candidate, data: Data, given: Mapping[str, Any], count: int) -> list[Candidate]:
    """Return so many candidates with other settings than the winner: learning rate, crops.

    Settings that a user has ``given`` stay.
    """
    augmentation = data.augmentation
    padding = 0 if augmentation.crop_padding else max(data.image_size // 8, 1)
    changes: list[tuple[str, Any]] = [
        ("weights.lr", 2 * _RATE), ("weights.lr", _RATE / 2), ("augmentation.crop_padding", padding),
    ]  # fmt: skip
    free = [(path, value) for path, value in changes if path not in given]
    return [replace(winner, settings={**winner.settings, path: value}) for path, value in free[:count]]
