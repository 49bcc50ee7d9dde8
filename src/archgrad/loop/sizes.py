"""Choose the pixels, width, depth, epochs and images of a search so that it keeps a time limit.

Images and steps decide, not pixels and width (docs/deciding.md has the runs): small supernets see their images at 16
pixels. One of some depth, with which the default was measured, is taken as soon as there is time for enough steps. Then
time goes into more images; only where there is time for all of them does the supernet grow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from archgrad.config import SearchConfig
from archgrad.config.resolve import ResolvedSearch, method_of, resolve, space_of
from archgrad.config.search_config import SIZE_FIELDS
from archgrad.data import Data, LoadOptions
from archgrad.distributed.processes import from_first
from archgrad.errors import UserError
from archgrad.loop.estimate import OVERHEAD, step_seconds
from archgrad.loop.stages import example_stages, number_of_stages
from archgrad.system.amounts import counted
from archgrad.training.schedule import Schedule

__all__ = ["SEARCH_PIXELS", "ChosenSizes", "candidate_sizes", "fit_sizes", "seen_images", "sized"]

ENOUGH_STEPS = 1500
"""Fewer weight steps than this decide little, and the user is told."""
DEEP_STEPS = 2000
"""With time for so many steps the supernet has some depth: 3 cells per stage of NAS-Bench-201."""
FEWEST_EPOCHS = 20
"""Rather than fewer epochs than this, a search takes fewer images, down to two batches."""
MOST_STEPS = 20_000
"""With time for this many steps the supernet grows even if there are more images."""
SEARCH_PIXELS = 16
LONGEST = 1.5
"""Reject a search that would take more than this many times the limit."""
_FEWEST_BATCHES, _SMALLEST_BATCH = 10, 16
_MEASURING_SHARE = 0.1
"""Share of the limit that a measurement may take after its first two steps."""

Size = tuple[int | None, int, int | None]
"""Pixels, None if the images stay as they are; width; and depth, None if stages have their own depths."""


@dataclass(frozen=True)
class ChosenSizes:
    """The chosen sizes, the seconds of a weight step with them, and the seconds spent on measuring."""

    config: SearchConfig
    step_seconds: float
    steps: int
    measuring_seconds: float = 0.0

    @property
    def minutes(self) -> float:
        """How long the search will take."""
        return self.steps * self.step_seconds * OVERHEAD / 60

    @property
    def all_minutes(self) -> float:
        """How long the search and the measurements take."""
        return self.minutes + self.measuring_seconds / 60

    @property
    def minutes_needed(self) -> float:
        """The time limit with which there would be enough steps."""
        return (ENOUGH_STEPS * self.step_seconds * OVERHEAD + self.measuring_seconds) / 60

    def check(self) -> None:
        """Reject sizes that would take much longer than the limit."""
        limit, needed = self.config.time_limit or 0.0, self.all_minutes
        if needed > LONGEST * limit:
            raise UserError(
                f"the smallest possible search ({self._sizes}) would take about {counted(needed, 'minute', '.2g')}, "
                f"but time_limit is {limit:g}; give --time-limit {_rounded_up(needed)}, or smaller sizes (--channels, "
                f"--cells, --epochs, --limit)."
            )

    def __str__(self) -> str:
        limit = self.config.time_limit or 0.0
        text = (
            f"chosen for {counted(limit, 'minute', 'g')} (--time-limit): {self._sizes}: {self.steps:,} steps of "
            f"{self.step_seconds:.2g} s, about {counted(self.minutes, 'minute', '.2g')}"
        )
        if self.all_minutes > 1.1 * limit:
            text += "; no smaller search is possible"
        if self.steps < ENOUGH_STEPS:
            text += (
                f"\nso few steps decide little: do not trust the architecture; {ENOUGH_STEPS:,} steps need about "
                f"--time-limit {_rounded_up(self.minutes_needed)}"
            )
        return text

    @property
    def _sizes(self) -> str:
        chosen = self.config
        images = "all images" if chosen.limit is None else f"{chosen.limit:,} images"
        epochs = counted(chosen.epochs or 0, "epoch")
        return f"{_size_in_words(chosen)}, {epochs}, {images}, batches of {chosen.batch_size}"


def fit_sizes(config: SearchConfig, data: Data, tell: Callable[[str], None] = lambda text: None) -> ChosenSizes:
    """Fill in the sizes that the configuration leaves open, for ``data`` as they are.

    It times a few steps of each supernet, from the smallest to the published one, and takes the last that has time to
    see all images FEWEST_EPOCHS times, or for MOST_STEPS, the second already for DEEP_STEPS; or the smallest. The rest
    of the time goes into images and epochs: at most the published number, or as many as ENOUGH_STEPS steps need.
    Measuring counts as part of the time. ``tell`` gets a line about each measurement. Sizes that would take much longer
    than the limit raise a UserError.
    """
    config = config.with_sizes()
    _check_free(config)
    config = _with_batches(resolve(config), data)
    started, limit = time.monotonic(), 60 * (config.time_limit or 0.0)
    chosen: tuple[ResolvedSearch, float] | None = None
    for number, size in enumerate(candidate_sizes(config, data)):
        parts = resolve(sized(config, size))
        tell(f"measuring a few steps with {_size_in_words(parts.config)}")
        step = _step_seconds(parts, seen_images(parts.config, data), _MEASURING_SHARE * limit)
        spent = from_first(lambda: time.monotonic() - started)
        most = DEEP_STEPS if number < 2 else MOST_STEPS
        is_enough = (limit - spent) / OVERHEAD / step >= _needed_steps(parts, data, most)
        if is_enough or chosen is None:
            chosen = parts, step
        if not is_enough:
            break
    assert chosen is not None  # noqa: S101 - there is at least one candidate
    sizes = _with_epochs(*chosen, from_first(lambda: time.monotonic() - started), data)
    sizes.check()
    return sizes


def sized(config: SearchConfig, size: Size) -> SearchConfig:
    """Return the configuration at a size."""
    pixels, channels, cells = size
    return replace(config, search_size=pixels, channels=channels, cells=cells)


def seen_images(config: SearchConfig, data: Data) -> Data:
    """Return the images as the search sees them."""
    return LoadOptions(image_size=config.search_size, resize=config.resize).resized(data)


def _needed_steps(parts: ResolvedSearch, data: Data, most: int) -> int:
    """Return the weight steps that a supernet other than the smallest must have time for, at ``most`` so many."""
    every = FEWEST_EPOCHS * _batches(parts.config, _shares(parts), data)
    return max(ENOUGH_STEPS, min(every, most))


def candidate_sizes(config: SearchConfig, data: Data) -> list[Size]:
    """Return the pixels, widths and depths to try, from half the published width to the published size.

    All but the last see the images at SEARCH_PIXELS, unless these are smaller or cannot be resized. Given sizes stay.
    Sizes that the method cannot search are left out: layer alignment needs two cells of a kind. The stages of a
    progressive method have their own depths (None), or one smaller depth for all. A chain keeps its depth, because its
    genotype fits no other.

    >>> from archgrad.data import digits
    >>> candidate_sizes(SearchConfig(space="nasbench201"), digits())
    [(None, 8, 1), (None, 8, 3), (None, 8, 5), (None, 16, 5)]
    >>> candidate_sizes(SearchConfig(space="darts", method="p-darts"), digits())
    [(None, 8, 3), (None, 8, 5), (None, 8, None), (None, 16, None)]
    """
    space, method = space_of(config), method_of(config)
    depth = getattr(space, space.depth_knob)
    least = 1 if space.depth_knob == "cells_per_stage" else 3
    depths = [depth] if space.has_own_depth else [min(least, depth), math.ceil(0.6 * depth), depth]
    half = max(space.channels // 2 // method.supernet.partial * method.supernet.partial, method.supernet.partial)
    small, own = _pixels(config, data)
    found = [*((small, half, cells) for cells in depths), (own, space.channels, depth)]
    staged = method.progressive is not None and config.cells is None
    sizes: list[Size] = [
        (pixels, config.channels or width, None if staged and cells == depth else config.cells or cells)
        for pixels, width, cells in found
    ]
    *others, largest = dict.fromkeys(sizes)
    return [*(size for size in others if _fits(config, size)), largest]


def _pixels(config: SearchConfig, data: Data) -> tuple[int | None, int | None]:
    """Return the search size of small supernets, and that of the published one."""
    if config.search_size is not None:
        return config.search_size, config.search_size
    is_small = max(data.shape[1:]) <= SEARCH_PIXELS
    return (None if is_small or config.image_size is not None or not data.resizable else SEARCH_PIXELS), None


def _fits(config: SearchConfig, size: Size) -> bool:
    try:
        resolve(sized(config, size))
    except UserError:
        return False
    return True


def _size_in_words(config: SearchConfig) -> str:
    pixels = "" if config.search_size is None else f"{config.search_size}×{config.search_size} pixels, "
    return f"{pixels}{config.channels} channels" + ("" if config.cells is None else f", depth {config.cells} (--cells)")


def _check_free(config: SearchConfig) -> None:
    """Reject a time limit if all sizes but that of the images are given."""
    names = [name for name in SIZE_FIELDS if name != "search_size"]
    if all(getattr(config, name) is not None for name in names):
        raise UserError(
            f"time_limit is {config.time_limit:g}, but {', '.join(names)} are all given, so nothing is left to "
            f"choose; leave out the time limit or one of them."
        )


def _shares(parts: ResolvedSearch) -> tuple[float, float]:
    """Return the share of the images for the weights, and the smaller one of weights and architecture."""
    fractions = parts.config.split_fractions(parts.method.schedule.level)
    return (1 - parts.config.held_out,) * 2 if fractions is None else (fractions[0], min(fractions))


def _with_batches(parts: ResolvedSearch, data: Data) -> SearchConfig:
    """Choose smaller batches for little data, so that an epoch has at least a few of them."""
    if parts.config.batch_size is not None:
        return parts.config
    size = parts.training.batch_size
    weights, fewest = (int(share * len(data)) for share in _shares(parts))
    while size >= 2 * _SMALLEST_BATCH and weights // size < _FEWEST_BATCHES:
        size //= 2
    return replace(parts.config, batch_size=max(min(size, fewest), 1))


def _with_epochs(parts: ResolvedSearch, step: float, spent: float, data: Data) -> ChosenSizes:
    """Choose as many epochs as there is time for, with fewer images if the epochs would be too few."""
    config, schedule, stages = parts.config, parts.method.schedule, number_of_stages(parts)
    seconds = (60 * (config.time_limit or 0.0) - spent) / OVERHEAD
    affordable = max(int(seconds / step / stages / schedule.inner_steps), 1)
    least = config.epochs or _least_epochs(schedule)
    shares = _shares(parts)
    config = _with_fewer_images(config, shares, affordable, least, data)
    batches = _batches(config, shares, data)
    most = max(parts.training.epochs, math.ceil(ENOUGH_STEPS / batches))
    epochs = config.epochs or max(min(affordable // batches, most), least)
    return ChosenSizes(replace(config, epochs=epochs), step, epochs * batches * stages * schedule.inner_steps, spent)


def _least_epochs(schedule: Schedule) -> int:
    """Return the fewest epochs of a search: the architecture must move in more epochs than the warm-up has.

    Random updates need enough steps to move both weights and architecture.
    """
    return max(2 * schedule.warmup_epochs + 1, 10 if schedule.updates == "random" else 2)


Shares = tuple[float, float]


def _batches(config: SearchConfig, shares: Shares, data: Data) -> int:
    images = len(data) if config.limit is None else min(config.limit, len(data))
    return max(int(shares[0] * images) // (config.batch_size or 1), 1)


def _with_fewer_images(config: SearchConfig, shares: Shares, affordable: int, least: int, data: Data) -> SearchConfig:
    """Take fewer images if there is no time for FEWEST_EPOCHS epochs of all, or else for ``least`` epochs."""
    wanted = config.epochs or max(FEWEST_EPOCHS, least)
    if config.limit is not None or affordable // _batches(config, shares, data) >= wanted:
        return config
    two_or_more, one = (_with_images_for(config, shares, count, data) for count in (max(affordable // wanted, 2), 1))
    return two_or_more if least * _batches(two_or_more, shares, data) <= affordable else one


def _with_images_for(config: SearchConfig, shares: Shares, batches: int, data: Data) -> SearchConfig:
    """Take enough images for this many batches, and at least two of each class in each part of the data."""
    share, smaller = shares
    rarest = int(data.targets.bincount(minlength=data.num_classes).min()) if data.classes else len(data)
    size = config.batch_size or 1
    enough = max(batches * size / share, size / smaller, 2 * len(data) / max(rarest, 1) / smaller)
    limit = math.ceil(enough) + data.num_classes
    return replace(config, limit=limit) if limit < len(data) else config


def _rounded_up(minutes: float) -> str:
    """Round minutes up to a number that suits as a limit.

    >>> _rounded_up(0.71), _rounded_up(12.2)
    ('0.8', '13')
    """
    return f"{math.ceil(10 * minutes) / 10 if minutes < 1 else math.ceil(minutes):g}"


def _step_seconds(parts: ResolvedSearch, data: Data, at_most: float) -> float:
    """Return the seconds of a step at these sizes (in the last stage), measured for at most ``at_most`` seconds."""
    *_, last = example_stages(parts)
    return step_seconds(last, data, at_most)
