"""Choosing how wide, deep and long a search is, by its data and a limit of time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from archgrad.errors import UserError

if TYPE_CHECKING:
    from archgrad.config import SearchConfig
    from archgrad.data import ImageData
    from archgrad.schedule import Schedule

__all__ = ["ChosenSizes", "candidate_sizes", "fit_sizes"]

FEWEST_STEPS = 1000
"""A larger supernet is taken only if there is time for so many steps of its weights."""
FEWEST_EPOCHS = 20
"""A search takes fewer images rather than fewer epochs than this, down to two batches."""
LONGEST = 1.5
"""A search that would take more than so many times the limit is refused."""
_FEWEST_BATCHES, _SMALLEST_BATCH = 10, 16
_MEASURING_SHARE = 0.1
"""Which share of the limit a measurement may take, if two steps are timed."""

Size = tuple[int, int | None]
"""Width and depth; None where stages have depths of their own."""


@dataclass(frozen=True)
class ChosenSizes:
    """The sizes that were chosen, the time that a step of the weights takes with them, and the time of measuring it."""

    config: SearchConfig
    step_seconds: float
    steps: int
    measuring_seconds: float = 0.0

    @property
    def minutes(self) -> float:
        """How long the search will take."""
        from archgrad.loop.estimate import OVERHEAD

        return self.steps * self.step_seconds * OVERHEAD / 60

    @property
    def all_minutes(self) -> float:
        """How long the search and the measurements take."""
        return self.minutes + self.measuring_seconds / 60

    def check(self) -> None:
        """Refuse sizes that would take much longer than the limit."""
        limit, needed = self.config.time_limit or 0.0, self.all_minutes
        if needed > LONGEST * limit:
            raise UserError(
                f"the smallest search that can be chosen ({self._sizes}) would take about {needed:.2g} minutes, but "
                f"time_limit is {limit:g}; give --time-limit {_rounded_up(needed)}, or smaller sizes (--channels, "
                f"--cells, --epochs, --limit)."
            )

    def __str__(self) -> str:
        limit = self.config.time_limit or 0.0
        long = "; less than that cannot be chosen" if self.all_minutes > 1.1 * limit else ""
        return (
            f"chosen for {limit:g} minutes (--time-limit): {self._sizes}: {self.steps:,} steps of "
            f"{self.step_seconds:.2g} s, about {self.minutes:.2g} minutes{long}"
        )

    @property
    def _sizes(self) -> str:
        chosen = self.config
        images = "all images" if chosen.limit is None else f"{chosen.limit:,} images"
        return f"{_size_in_words(chosen)}, {chosen.epochs} epochs, {images}, batches of {chosen.batch_size}"


def fit_sizes(config: SearchConfig, data: ImageData, tell: Callable[[str], None] = lambda text: None) -> ChosenSizes:
    """Return the configuration with all sizes that it does not give: the largest supernet that has time to learn.

    A few steps of each supernet are measured, from the smallest to the published one, as long as there is time for
    FEWEST_STEPS steps of it. The last of those is taken, or the smallest. The rest of the time goes into epochs, up to
    the published number or as many as those steps need. The time of measuring counts. ``tell`` is given a line about
    each measurement. Sizes that would take much longer than the limit are refused.
    """
    from archgrad.loop.estimate import OVERHEAD

    config = config.with_sizes()
    _check_free(config)
    config = _with_batches(config, data)
    started, limit = time.monotonic(), 60 * (config.time_limit or 0.0)
    chosen: tuple[SearchConfig, float] | None = None
    for channels, cells in candidate_sizes(config):
        sized = replace(config, channels=channels, cells=cells)
        tell(f"measuring a few steps with {_size_in_words(sized)}")
        step = _step_seconds(sized, data, _MEASURING_SHARE * limit)
        is_enough = (limit - time.monotonic() + started) / OVERHEAD / step >= FEWEST_STEPS
        if is_enough or chosen is None:
            chosen = sized, step
        if not is_enough:
            break
    assert chosen is not None  # noqa: S101 - there is at least one rung
    sizes = _with_epochs(*chosen, time.monotonic() - started, data)
    sizes.check()
    return sizes


def candidate_sizes(config: SearchConfig) -> list[Size]:
    """Return widths and depths from half the published width and little depth to the published ones, as far as free.

    Those that the method cannot search are left out, such as layer alignment with one cell of a kind. A method in
    stages has their own depths (None), or one smaller depth for all of them.

    >>> from archgrad.config import SearchConfig
    >>> candidate_sizes(SearchConfig(space="nasbench201")), candidate_sizes(SearchConfig(space="darts", cells=8))
    ([(8, 1), (8, 3), (8, 5), (16, 5)], [(8, 8), (16, 8)])
    >>> candidate_sizes(SearchConfig(space="darts", method="p-darts"))
    [(8, 3), (8, 5), (8, None), (16, None)]
    """
    space, method = config.build_space(), config.build_method()
    depth = getattr(space, space.depth_knob)
    least = 1 if space.depth_knob == "cells_per_stage" else 3
    half = max(space.channels // 2 // method.supernet.partial * method.supernet.partial, method.supernet.partial)
    found = [(half, min(least, depth)), (half, math.ceil(0.6 * depth)), (half, depth), (space.channels, depth)]
    staged = method.progressive is not None and config.cells is None
    sizes: list[Size] = [
        (config.channels or width, None if staged and cells == depth else config.cells or cells)
        for width, cells in found
    ]
    *others, largest = dict.fromkeys(sizes)
    return [*(size for size in others if _fits(config, size)), largest]


def _fits(config: SearchConfig, size: Size) -> bool:
    from archgrad.reactions import check_reaction

    sized = replace(config, channels=size[0], cells=size[1])
    try:
        space, method = sized.build_space(), sized.build_method()
        method.check(space)
        check_reaction(config.on_collapse, method, space)
    except UserError:
        return False
    return True


def _size_in_words(config: SearchConfig) -> str:
    return f"{config.channels} channels" + ("" if config.cells is None else f", depth {config.cells} (--cells)")


def _check_free(config: SearchConfig) -> None:
    """Refuse a limit of time that would choose nothing."""
    sizes = (config.epochs, config.channels, config.cells, config.batch_size, config.limit)
    if all(size is not None for size in sizes):
        raise UserError(
            f"time_limit is {config.time_limit:g}, but epochs, channels, cells, batch_size and limit are all given, so "
            f"that nothing is left to choose; leave the limit or one of them out."
        )


def _shares(config: SearchConfig) -> tuple[float, float]:
    """Return the share of the images that train the weights, and the smaller one of weights and architecture."""
    fractions = config.split_fractions(config.build_method().schedule.level)
    return (1 - config.held_out,) * 2 if fractions is None else (fractions[0], min(fractions))


def _with_batches(config: SearchConfig, data: ImageData) -> SearchConfig:
    """Give an epoch of little data at least a few batches, by smaller ones."""
    if config.batch_size is not None:
        return config
    size = config.build_training(config.build_space(), config.build_method()).batch_size
    weights, fewest = (int(share * len(data)) for share in _shares(config))
    while size >= 2 * _SMALLEST_BATCH and weights // size < _FEWEST_BATCHES:
        size //= 2
    return replace(config, batch_size=max(min(size, fewest), 1))


def _with_epochs(config: SearchConfig, step: float, spent: float, data: ImageData) -> ChosenSizes:
    """Spend the steps that there is time for on epochs, or on fewer images where those would be too few."""
    from archgrad.loop.estimate import OVERHEAD

    method = config.build_method()
    stages = 1 if method.progressive is None else len(method.progressive.stages)
    inner_steps = method.schedule.inner_steps
    seconds = (60 * (config.time_limit or 0.0) - spent) / OVERHEAD
    affordable = max(int(seconds / step / stages / inner_steps), 1)
    least = config.epochs or _least_epochs(method.schedule)
    config = _with_fewer_images(config, affordable, least, data)
    batches = _batches(config, data)
    published = config.build_training(config.build_space(), method).epochs
    most = max(published, math.ceil(FEWEST_STEPS / batches))
    epochs = config.epochs or max(min(affordable // batches, most), least)
    return ChosenSizes(replace(config, epochs=epochs), step, epochs * batches * stages * inner_steps, spent)


def _least_epochs(schedule: Schedule) -> int:
    """Return how many epochs a search needs at least: more that move the architecture than warm up.

    Where chance says what a step moves, there must be enough steps that both move.
    """
    return max(2 * schedule.warmup_epochs + 1, 10 if schedule.updates == "random" else 2)


def _batches(config: SearchConfig, data: ImageData) -> int:
    images = len(data) if config.limit is None else min(config.limit, len(data))
    return max(int(_shares(config)[0] * images) // (config.batch_size or 1), 1)


def _with_fewer_images(config: SearchConfig, affordable: int, least: int, data: ImageData) -> SearchConfig:
    """Take fewer images if so many batches are too few for FEWEST_EPOCHS epochs, or at least for the ``least``."""
    wanted = config.epochs or max(FEWEST_EPOCHS, least)
    if config.limit is not None or affordable // _batches(config, data) >= wanted:
        return config
    two_or_more, one = (_with_images_for(config, count, data) for count in (max(affordable // wanted, 2), 1))
    return two_or_more if least * _batches(two_or_more, data) <= affordable else one


def _with_images_for(config: SearchConfig, batches: int, data: ImageData) -> SearchConfig:
    """Take as many images as make so many batches, and at least two of each class in each part of the data."""
    share, smaller = _shares(config)
    rarest = int(data.labels.bincount(minlength=data.num_classes).min())
    size = config.batch_size or 1
    enough = max(batches * size / share, size / smaller, 2 * len(data) / max(rarest, 1) / smaller)
    limit = math.ceil(enough) + data.num_classes
    return replace(config, limit=limit) if limit < len(data) else config


def _rounded_up(minutes: float) -> str:
    """Return a number of minutes to give as a limit.

    >>> _rounded_up(0.71), _rounded_up(12.2)
    ('0.8', '13')
    """
    return f"{math.ceil(10 * minutes) / 10 if minutes < 1 else math.ceil(minutes):g}"


def _step_seconds(config: SearchConfig, data: ImageData, at_most: float) -> float:
    """Measure a step of the search at these sizes, of the last stage if there are several, for so many seconds."""
    from archgrad.loop.estimate import stages_of, step_seconds

    *_, (space, method) = stages_of(config.build_space(), config.build_method())
    return step_seconds(
        space, method, data, training=config.build_training(space, method), seed=config.seed, split=config.split,
        held_out=config.held_out, device=config.device, at_most=at_most,
    )  # fmt: skip
