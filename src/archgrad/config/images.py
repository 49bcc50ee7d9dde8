"""The images that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from archgrad import data, recipes
from archgrad.config.search_config import SearchConfig
from archgrad.data import Augmentation, Data, catalog
from archgrad.parts.knobs import with_settings

__all__ = ["check_data", "load_data"]

_PUBLISHED_SIZE = 32
"""The side of the images that published augmentations are for."""


def check_data(config: SearchConfig) -> None:
    """Reject unknown data, a path without data, and wrong options, before anything is read."""
    data.LoadOptions(True, config.limit, config.image_size, config.resize)
    if isinstance(config.data, str):
        catalog.check_data(config.data, config.data_dir)


def load_data(config: SearchConfig, progress: Callable[[int, int], None] | None = None) -> Data:
    """Load the images; ``progress(done, total)`` is told how many are read."""
    size = config.search_size or config.image_size
    if isinstance(config.data, str):
        images = data.load(
            config.data, data_dir=config.data_dir, limit=config.limit, image_size=size,
            resize=config.resize, seed=config.seed, progress=progress or data.no_progress,
        )  # fmt: skip
        augmentation = _published_augmentation(config, images)
    else:
        options = data.LoadOptions(True, config.limit, size, config.resize, int(config.seed))
        images = options.apply(config.data)
        augmentation = _published_augmentation(config, images) if config.published else images.augmentation
    settings = config.settings_of("augmentation")
    return images.with_fields(augmentation=with_settings(augmentation, settings, "augmentation"))


def _published_augmentation(config: SearchConfig, images: Data) -> Augmentation:
    """Return the augmentation of the data with what the method was published with, scaled from 32 pixels."""
    declared = {} if config.recipe is None else recipes.declared(config.recipe, config.space)
    own = {
        path.removeprefix("augmentation."): setting.value
        for path, setting in declared.items()
        if path.startswith("augmentation.")
    }
    published = replace(images.augmentation, **own).scaled(_PUBLISHED_SIZE, images.image_size) if own else None
    changes = {name: getattr(published, name) for name in own}
    return replace(images.augmentation, **changes)
