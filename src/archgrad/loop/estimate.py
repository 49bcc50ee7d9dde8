"""Estimates of the time and memory of a search, from a few of its steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from archgrad.callbacks import Callback, Search
from archgrad.config import SearchConfig
from archgrad.data import Data, ImageData
from archgrad.discretizers import Argmax
from archgrad.distributed.processes import from_first
from archgrad.loop.entry import search
from archgrad.loop.progressive import method_of
from archgrad.loop.setup import Setup
from archgrad.method.bundle import Method
from archgrad.recipes import published_run
from archgrad.spaces import SearchSpace
from archgrad.system import random_streams

__all__ = ["OVERHEAD", "Estimate", "estimate", "published_seconds", "stages_of", "step_seconds"]

OVERHEAD = 1.25
"""The time of an epoch relative to its steps: measurements and checkpoints add to it."""
_TIMED, _LEAST_TIMED = 6, 2
"""The number of timed steps, and the least number where time is short."""
_SHARE, _CLASSES = 8, 10
"""A published step is timed with one of so many images of its batch; the images of CIFAR-10 have so many classes."""


@dataclass(frozen=True)
class Estimate:
    """The size and the cost of a search; for a search in stages, their sums and the largest supernet.

    ``step_seconds`` is the mean time of a weight step with its share of the architecture steps, ``seconds`` that of the
    whole search. ``peak_megabytes`` is the peak memory of this process during a few steps, including Python and
    PyTorch; None where the system does not report it.
    """

    parameters: int
    weight_steps: int
    arch_steps: int
    step_seconds: float
    seconds: float
    peak_megabytes: float | None


def estimate(config: SearchConfig, data: Data) -> Estimate:
    """Estimate the cost of a search of these images by a few of its steps; leave no files behind."""
    _forget_peak()
    stages = list(stages_of(config.build_space(), config.build_method()))
    setups = [Setup.of(*stage, data, config) for stage in stages]
    times = [step_seconds(config, *stage, data) for stage in stages]
    steps = [setup.weights.epochs * setup.steps for setup in setups]
    seconds = sum(count * taken for count, taken in zip(steps, times, strict=True))
    return Estimate(
        max(
            sum(
                weight.numel() for weight in setup.space.supernet(setup.options, num_classes=setup.outputs).parameters()
            )
            for setup in setups
        ),
        sum(steps),
        sum(setup.arch_steps for setup in setups),
        seconds / sum(steps),
        seconds * OVERHEAD,
        _peak(),
    )


def published_seconds(recipe: str, space: str, at_most: float = 5.0) -> float:
    """Estimate how long the published search with a recipe in a space takes on this machine, in seconds.

    It times steps with an eighth of the published batch, of random images in the shape of CIFAR-10's, for about
    ``at_most`` seconds in each stage, and takes their time to grow with the batch.
    """
    usual = SearchConfig(space=space, method=recipe)
    run = published_run(recipe, usual.build_space())
    size = max(run.batch_size // _SHARE, 2)
    config, count = replace(usual, batch_size=size, held_out=0.0), max(2 * size, 4 * _CLASSES)
    noise = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=random_streams.generator(0, "estimate"))
    data = ImageData("noise", noise, torch.arange(count) % _CLASSES, tuple(map(str, range(_CLASSES))))
    stages = stages_of(config.build_space(), config.build_method())
    step = sum(step_seconds(config, *stage, data, at_most) for stage in stages)
    return run.weight_steps * step * run.batch_size / size * OVERHEAD


def step_seconds(
    config: SearchConfig, space: SearchSpace, method: Method, data: Data, at_most: float = math.inf
) -> float:
    """Measure a step of a search: the mean of a few after the first, without warm-up, early stop and diagnostics.

    ``space`` and ``method`` are those of the configuration, or of a stage. The measurement ends early when it has taken
    ``at_most`` seconds and has timed two steps after the first.
    """
    schedule = replace(method.schedule, warmup_epochs=0)
    derivation = Argmax() if method.discretizer.measures else method.discretizer
    timer = _StepTimer(schedule.inner_steps, at_most)
    weights = replace(config.build_training(space, method), epochs=10 * timer.most)
    method = replace(method, schedule=schedule, discretizer=derivation, stop=None, progressive=None)
    with suppress(_TimedEnough):
        search(
            space, method, data, task=config.build_task(), weights=weights, seed=config.seed, split=config.split,
            held_out=config.held_out, device=config.device, workers=config.workers,
            checkpoint_cells=config.checkpoint_cells, callbacks=[timer], standard_callbacks=False,
            on_collapse="ignore", alpha_budget="off",
        )  # fmt: skip
    return from_first(lambda: max((timer.times[-1] - timer.times[0]) / (len(timer.times) - 1), 1e-6))


class _TimedEnough(Exception):  # noqa: N818 - it is no error, it ends a measurement
    """Raised by the callback that measures time."""


class _StepTimer(Callback):
    """Records when steps end, and ends the search after some of them.

    The timed steps are a multiple of ``inner_steps``, so that the architecture has its share of them.
    """

    def __init__(self, inner_steps: int, at_most: float) -> None:
        self.inner_steps = inner_steps
        self.least, self.most = (math.ceil(count / inner_steps) * inner_steps for count in (_LEAST_TIMED, _TIMED))
        self.end, self.times = time.perf_counter() + at_most, list[float]()

    def on_step_end(self, search: Search, means: Mapping[str, float]) -> None:
        self.times.append(time.perf_counter())
        timed = len(self.times) - 1
        late = self.times[-1] >= self.end and timed >= self.least and timed % self.inner_steps == 0
        if from_first(lambda: late) or timed >= self.most:
            raise _TimedEnough


def stages_of(space: SearchSpace, method: Method) -> Iterator[tuple[SearchSpace, Method]]:
    """Yield the space and method of each stage, with choices dropped at random; a method without stages has one."""
    plan = method.progressive
    if plan is None:
        yield space, method
        return
    searched, generator = plan.sized(space, 0), random_streams.generator(0, "estimate")
    for number in range(1, len(plan.stages) + 1):
        yield searched, method_of(method, plan, number, searched)
        if number < len(plan.stages):
            drawn = {block.name: torch.rand(block.shape, generator=generator) for block in searched.blocks}
            searched = plan.narrowed(searched, drawn, number)


def _forget_peak() -> None:
    """Reset the peak memory that the kernel reports for this process, where possible."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float | None:
    """Return the peak memory of this process in megabytes, as Linux reports it."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None
