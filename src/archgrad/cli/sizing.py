"""Choosing how wide, deep and long a search is, by its data and a limit of time."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archgrad.config import RunConfig
    from archgrad.data import ImageData
    from archgrad.loop import Event
    from archgrad.method import Method
    from archgrad.spaces import SearchSpace

__all__ = ["FittedSizes", "fitted", "rungs"]

FEWEST_STEPS = 500
"""A larger supernet is taken only if there is time for so many steps of its weights."""
FEWEST_EPOCHS = 20
"""Where there is no time for so many epochs, a part of the images has to do."""
_FEWEST_BATCHES, _SMALLEST_BATCH = 10, 16
_TIMED = 6
_OVERHEAD = 1.25
"""What an epoch takes beyond its steps: measurements, checkpoints."""


@dataclass(frozen=True)
class FittedSizes:
    """The sizes that were chosen, and the time that a step of the weights takes with them."""

    config: RunConfig
    step_seconds: float
    steps: int

    def __str__(self) -> str:
        chosen = self.config
        images = "all images" if chosen.limit is None else f"{chosen.limit:,} images"
        minutes = self.steps * self.step_seconds * _OVERHEAD / 60
        depth = "" if chosen.cells is None else f"depth {chosen.cells} (--cells), "
        return (
            f"chosen for {chosen.time_limit:g} minutes (--time-limit): {chosen.channels} channels, {depth}"
            f"{chosen.epochs} epochs, {images}, batches of {chosen.batch_size}: {self.steps:,} steps of "
            f"{self.step_seconds:.2g} s, about {minutes:.1f} minutes"
        )


def fitted(config: RunConfig, data: ImageData) -> FittedSizes:
    """Return the configuration with all sizes that it does not give: the largest supernet that has time to learn.

    Supernets are tried from the smallest to the published one, a few steps each, and the last of those is taken that
    could make FEWEST_STEPS steps within the limit. The rest of the time goes into epochs, up to the published number or
    as many as twice those steps need.
    """
    seconds = 60 * (config.time_limit or 0.0) / _OVERHEAD
    config = _with_batches(config, data)
    chosen: tuple[RunConfig, float] | None = None
    for channels, cells in rungs(config):
        sized = replace(config, channels=channels, cells=cells)
        step = _step_seconds(sized, data)
        if chosen is not None and seconds / step < FEWEST_STEPS:
            break
        chosen = sized, step
    assert chosen is not None  # noqa: S101 - there is at least one rung
    return _with_epochs(*chosen, seconds, data)


def rungs(config: RunConfig) -> list[tuple[int, int | None]]:
    """Return widths and depths from half the published width and little depth to the published ones, as far as free.

    >>> from archgrad.config import RunConfig
    >>> rungs(RunConfig(space="nasbench201")), rungs(RunConfig(space="darts", cells=8))
    ([(8, 1), (8, 3), (8, 5), (16, 5)], [(8, 8), (16, 8)])
    """
    space, method = config.build_space(), config.build_method()
    depth = getattr(space, space.depth_knob)
    least = 1 if space.depth_knob == "cells_per_stage" else 3
    half = max(space.channels // 2 // method.supernet.partial * method.supernet.partial, method.supernet.partial)
    found = [(half, min(least, depth)), (half, math.ceil(0.6 * depth)), (half, depth), (space.channels, depth)]
    staged = method.progressive is not None and config.cells is None  # its stages have depths of their own
    sizes = [
        (width if config.channels is None else config.channels, None if staged else config.cells or cells)
        for width, cells in found
    ]
    return list(dict.fromkeys(sizes))


def _weight_share(config: RunConfig) -> float:
    """Return the share of the images that train the weights."""
    from archgrad.loop.setup import fractions_of

    fractions = fractions_of(config.split, config.build_method().schedule.level)
    return 1 - config.held_out if fractions is None else fractions[0]


def _with_batches(config: RunConfig, data: ImageData) -> RunConfig:
    """Give an epoch of little data at least a few batches, by smaller ones."""
    if config.batch_size is not None:
        return config
    space, method = config.build_space(), config.build_method()
    size, images = config.build_training(space, method).batch_size, _weight_share(config) * len(data)
    while size >= 2 * _SMALLEST_BATCH and images // size < _FEWEST_BATCHES:
        size //= 2
    return replace(config, batch_size=min(size, max(int(images), 1)))


def _with_epochs(config: RunConfig, step: float, seconds: float, data: ImageData) -> FittedSizes:
    """Spend the steps that there is time for on epochs, or on fewer images where those would be too few."""
    space, method = config.build_space(), config.build_method()
    published = config.build_training(space, method).epochs
    stages = 1 if method.progressive is None else len(method.progressive.stages)
    share, batch = _weight_share(config), config.batch_size or 1
    affordable = max(int(seconds / step / stages / method.schedule.inner_steps), 1)
    batches = max(int(share * len(data)) // batch, 1)
    fewest = config.epochs or max(FEWEST_EPOCHS, 2 * method.schedule.warmup_epochs)
    if affordable // batches < fewest and config.limit is None:
        batches = min(batches, max(affordable // fewest, 2))
        limit = max(math.ceil(batches * batch / share) + data.num_classes, 2 * data.num_classes)
        config = replace(config, limit=limit) if limit < len(data) else config
        epochs = fewest
    else:
        most = max(published, math.ceil(2 * FEWEST_STEPS / batches))
        epochs = config.epochs or max(min(affordable // batches, most), method.schedule.warmup_epochs + 1)
    steps = epochs * batches * stages * method.schedule.inner_steps
    return FittedSizes(replace(config, epochs=epochs), step, steps)


def _step_seconds(config: RunConfig, data: ImageData) -> float:
    """Measure a step of the search at these sizes, on a few batches: the mean of all but the first."""
    from archgrad.loop import StepFinished, search

    times: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, StepFinished):
            times.append(time.perf_counter())

    space, method = _plain(config)
    images = math.ceil((_TIMED + 1) * (config.batch_size or 1) / _weight_share(config))
    part = data.limited(max(images, 4 * data.num_classes), seed=config.seed) if images < len(data) else data
    started = time.perf_counter()
    options: dict[str, Any] = {"diagnostics": (), "on_collapse": "ignore", "alpha_budget": "off", "listeners": [note]}
    training = replace(config.build_training(space, method), epochs=1)
    search(space, method, part, seed=config.seed, training=training, device=config.device, split=config.split,
           held_out=config.held_out, **options)  # fmt: skip
    mean = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[0] - started
    return max(mean, 1e-6)


def _plain(config: RunConfig) -> tuple[SearchSpace, Method]:
    """Return the space and the method as their steps are, without warm-up, derivation, stop and stages."""
    from archgrad.discretizers import Argmax

    space, method = config.build_space(), config.build_method()
    if method.progressive is not None:
        last = len(method.progressive.stages) - 1
        space, method = method.progressive.sized(space, last), method.in_stage(last)
    schedule = replace(method.schedule, warmup_epochs=0)
    return space, replace(method, schedule=schedule, discretizer=Argmax(), stop=None, progressive=None)
