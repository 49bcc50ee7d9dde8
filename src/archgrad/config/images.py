"""The images that a configuration describes, and what a published search says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from archgrad import data, recipes
from archgrad.config.search_config import SearchConfig
from archgrad.data import Augmentation, Data, catalog
from archgrad.parts.knobs import with_settings

if TYPE_CHECKING:
    from archgrad.config.resolve import ResolvedSearch

__all__ = ["check_data", "load_data", "published_lines"]

_PUBLISHED_SIZE = 32
"""The side of the images that published augmentations are for."""


def check_data(config: SearchConfig) -> None:
    """Reject unknown data, a path without data, and wrong options, before anything is read."""
    data.LoadOptions(True, config.limit, config.image_size, config.resize, strict=config.strict)
    if isinstance(config.data, str):
        catalog.check_data(config.data, config.data_dir)


def load_data(config: SearchConfig, progress: Callable[[int, int], None] | None = None) -> Data:
    """Load the images; ``progress(done, total)`` is told how many are read."""
    if isinstance(config.data, str):
        images = data.load(
            config.data, data_dir=config.data_dir, limit=config.limit, image_size=config.image_size,
            resize=config.resize, seed=config.seed, strict=config.strict, progress=progress or data.no_progress,
        )  # fmt: skip
        augmentation = _published_augmentation(config, images)
    else:
        options = data.LoadOptions(True, config.limit, config.image_size, config.resize, int(config.seed))
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
    scaled = replace(images.augmentation, **own).scaled(_PUBLISHED_SIZE, images.image_size)
    return replace(images.augmentation, **{name: getattr(scaled, name) for name in own})


def published_lines(search: ResolvedSearch, images: Data) -> list[str]:
    """Return the first lines of a published search: what it is, and what of it no paper has published."""
    run = recipes.published_run(search.config.recipe or "", search.space)
    unseen = "on images that train weights too" if run.level == "single" else "and arch_* on the images of α"
    lines = [f"as published: {run.describe()}", *run.departures()]
    lines.append(f"no image is held out, so train_* measures each epoch, {unseen} (docs/command.md)")
    if images.name != "cifar10" or len(images) != run.images:
        size = f"{images.shape[1]}×{images.shape[2]} pixels"
        lines.append(
            f"the papers search the {run.images:,} images of CIFAR-10, 32×32 pixels; this is {images.name}, "
            f"{len(images):,} images, {size}"
        )
    return lines
