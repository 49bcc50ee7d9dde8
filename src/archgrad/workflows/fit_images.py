"""The images of a fit: those that train, and those that only test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from archgrad.config import SearchConfig
from archgrad.config.images import check_data
from archgrad.data import Data
from archgrad.data import split as split_data
from archgrad.errors import ImageSizeError, UserError
from archgrad.workflows.fit_plan import FitPlan, chosen_image_size
from archgrad.workflows.test_images import find_test_images

__all__ = ["load_images"]

_TEST_SHARE = 0.2
"""The share of the images that only tests the model, where the data has no test images."""
_LEAST_TESTS = 10


def load_images(config: SearchConfig, test: Any, seconds: float, plan: FitPlan | None) -> tuple[Data, Data]:
    """Return the images that train and those that test, both at their final size.

    That size is the configuration's, the plan's, or chosen for so many ``seconds``. The test images are those of
    ``test``, those of the data's own source, or a fifth of the images.
    """
    if plan is not None:
        if config.image_size not in (None, plan.image_size):
            raise UserError(f"image_size is {config.image_size}, but that of the plan is {plan.image_size}; give one.")
        config = replace(config, image_size=plan.image_size)
    check_data(config)
    config, images = _load(config, seconds)
    tests = find_test_images(config, images, test)
    if tests is None:
        parts = split_data(images.targets, None, config.seed, _TEST_SHARE, images.classes)
        tests, images = images.select(parts.held_out), images.select(parts.weights)
    if len(tests) < _LEAST_TESTS:
        raise UserError(f"there are {len(tests)} images to test the model; give at least {_LEAST_TESTS} (more data).")
    return images, tests


def _load(config: SearchConfig, seconds: float) -> tuple[SearchConfig, Data]:
    """Load the images at their final size, and return the configuration with that size."""
    try:
        images = config.load_data()
        size = config.image_size or chosen_image_size(images.image_size, seconds)
    except ImageSizeError:
        size = config.image_size or chosen_image_size(None, seconds)
        images = replace(config, image_size=size).load_data()
    if not images.classes:
        raise UserError(f"the targets of {images.name!r} are no classes, which fit needs; use search and train.")
    config = replace(config, image_size=size)
    if images.shape[1:] != (size, size):
        images = config.load_data() if images.lazy else images.resized(size, config.fit)
    return config, images
