"""A search to the letter of its paper: what may not stand beside it, and what the paper does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archgrad.errors import UserError, shortened

if TYPE_CHECKING:
    from archgrad.config.resolve import ResolvedSearch
    from archgrad.config.search_config import SearchConfig
    from archgrad.data import Data

__all__ = ["PAPER", "check_nothing_else", "published_lines"]

_OPEN = (
    "epochs", "channels", "cells", "batch_size", "limit", "image_size", "search_size", "split", "time_limit", "weights",
    "relaxation", "hypergradient", "arch_optimizer", "regularizer", "discretizer",
)  # fmt: skip
"""The fields that a published search leaves to its paper."""
_GIVEN: dict[str, tuple[Any, ...]] = {
    "held_out": (0,),
    "alpha_budget": ("off",),
    "on_collapse": ("warn", "ignore"),
}
"""The other fields that a paper settles, with the values that change nothing."""
PAPER = "published is True (--published), which takes all sizes and settings from the paper"


def check_nothing_else(config: SearchConfig) -> None:
    """Reject whatever would change the published search; settings of callbacks change nothing."""
    for name in _OPEN:
        if getattr(config, name) is not None:
            raise UserError(f"{name} is {shortened(getattr(config, name))}, but {PAPER}; leave one of the two out.")
    for name, allowed in _GIVEN.items():
        if (value := getattr(config, name)) not in allowed:
            words = " or ".join(map(str, allowed))
            raise UserError(f"{name} is {shortened(value)}, but {PAPER}: {words}; leave one of the two out.")
    for path in config.settings:
        if not _is_of_callback(path.rpartition(".")[0]):
            raise UserError(f"the setting {shortened(path)} is given, but {PAPER}; leave one of the two out.")


def _is_of_callback(part: str) -> bool:
    from archgrad.callbacks import CALLBACKS

    return part in CALLBACKS


def published_lines(search: ResolvedSearch, images: Data) -> list[str]:
    """Return the first lines of a published search: what it is, and what of it no paper has published."""
    from archgrad.recipes import published_run

    run = published_run(search.config.recipe or "", search.space)
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
