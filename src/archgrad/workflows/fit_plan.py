"""What a fit may be told in advance, and its images: those that train, rank and test, at their final size."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch

from archgrad.config import SearchConfig
from archgrad.config.images import check_data
from archgrad.data import Data, duplicates_in
from archgrad.data import split as split_data
from archgrad.errors import ImageSizeError, UserError
from archgrad.parts.fields import Count, Range, check_fields
from archgrad.system.warn_once import warn_once
from archgrad.workflows.test_images import find_test_images

__all__ = ["FitPlan", "Images", "chosen_image_size", "load_images"]

_logger = logging.getLogger(__name__)
_SMALL_IMAGE, _LARGE_IMAGE, _LONG = 32, 64, 7200.0
_TEST_SHARE = 0.2
"""The share of the images that only tests the model, where the data has no test images."""
_LEAST_TESTS = 10
_RANKING, _RANKING_SHARE = 1500, 0.25
"""So many images rank the candidates, but at most this share."""


@dataclass(frozen=True)
class FitPlan:
    """What a fit shall not choose by itself; None: chosen from the images, the time and this machine.

    ``search_epochs``, ``search_channels``, ``search_cells``, ``search_batch_size`` and ``search_limit`` (images) are
    those of the search; 0 epochs: no search. So many ``networks`` compete in the first round, with ``channels`` and
    ``cells`` per stage, then so many ``variants`` of the best one. The last training has ``train_epochs`` epochs, and
    those of each round before half as many.
    """

    image_size: Count | None = None
    search_epochs: Annotated[int, Range(0, 1_000_000)] | None = None
    search_channels: Count = 8
    search_cells: Count = 1
    search_batch_size: Count = 64
    search_limit: Count | None = None
    networks: Count | None = None
    variants: Annotated[int, Range(0, 100)] | None = None
    channels: Count | None = None
    cells: Count | None = None
    train_epochs: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "{} of the plan")

    @property
    def search(self) -> dict[str, Any] | None:
        """The sizes of the search, empty for none; None if they are to be chosen."""
        if self.search_epochs is None:
            return None
        names = ("epochs", "channels", "cells", "batch_size", "limit")
        return {name: getattr(self, f"search_{name}") for name in names} if self.search_epochs else {}


@dataclass(frozen=True)
class Images:
    """The images of a fit: ``every`` one may train the model at the end, ``tests`` decide nothing.

    Before, ``train`` those that train candidates, and ``ranking`` those that rank them, are two parts of ``every``.
    """

    every: Data
    train: Data
    ranking: Data
    tests: Data

    @classmethod
    def of(cls, every: Data, tests: Data, seed: int) -> Images:
        """Divide the images."""
        train, ranking = _divided(every, min(_RANKING / len(every), _RANKING_SHARE), seed)
        return cls(every, train, ranking, tests)

    def resized(self, size: int, mode: str) -> Images:
        """Return the same images at another size."""
        if size == self.every.image_size:
            return self
        return Images(*(getattr(self, name).resized(size, mode) for name in ("every", "train", "ranking", "tests")))


def chosen_image_size(sides: int | None, seconds: float) -> int:
    """Return the side of the images to work with: their own, but at most 32 pixels, or 64 with two hours.

    None stands for images of different sizes.

    >>> chosen_image_size(8, 60.0), chosen_image_size(224, 60.0), chosen_image_size(None, 7200.0)
    (8, 32, 64)
    """
    most = _LARGE_IMAGE if seconds >= _LONG else _SMALL_IMAGE
    return most if sides is None else min(sides, most)


def load_images(config: SearchConfig, test: Any, seconds: float, plan: FitPlan) -> Images:
    """Return the images at their final size.

    That size is the configuration's, the plan's, or chosen for so many ``seconds``. The test images are those of
    ``test``, those of the data's own source, or a fifth of the images.
    """
    if plan.image_size is not None:
        if config.image_size not in (None, plan.image_size):
            raise UserError(f"image_size is {config.image_size}, but that of the plan is {plan.image_size}; give one.")
        config = replace(config, image_size=plan.image_size)
    check_data(config)
    config, images = _load(config, seconds)
    tests = find_test_images(config, images, test)
    if tests is None:
        images, tests = _divided(images, _TEST_SHARE, config.seed)
    if len(tests) < _LEAST_TESTS:
        raise UserError(f"there are {len(tests)} images to test the model; give at least {_LEAST_TESTS} (more data).")
    return Images.of(images, tests, config.seed)


def _divided(data: Data, share: float, seed: int) -> tuple[Data, Data]:
    """Divide the images into those that train and a share that does not; copies of the former train too."""
    parts = split_data(data.targets, None, seed, share, data.classes)
    copies = duplicates_in(data.select(parts.weights), data.select(parts.held_out))
    if copies.all():
        raise UserError(
            f"all {len(copies)} images of {data.name!r} that were to test or rank are copies of training images, pixel "
            f"by pixel; give data with more different images."
        )
    if count := int(copies.sum()):
        warn_once(
            _logger, "%d of %d images that were to test or rank are copies of training images, pixel by pixel: they "
            "train instead.", count, len(copies),
        )  # fmt: skip
    train = torch.cat([parts.weights, parts.held_out[copies]]).sort().values
    return data.select(train), data.select(parts.held_out[~copies])


def _load(config: SearchConfig, seconds: float) -> tuple[SearchConfig, Data]:
    """Load the images at their final size, and return the configuration with that size."""
    try:
        images = config.load_data()
        size = config.image_size or chosen_image_size(images.image_size, seconds)
    except ImageSizeError:
        size = config.image_size or chosen_image_size(None, seconds)
        images = replace(config, image_size=size).load_data()
    config = replace(config, image_size=size)
    if images.shape[1:] != (size, size):
        images = config.load_data() if images.lazy else images.resized(size, config.resize)
    return config, images
