"""Estimates of the time and memory of a search from a few of its steps, and its fastest number of threads."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

import torch

from archgrad.config import SearchConfig
from archgrad.config.resolve import ResolvedSearch, resolve, space_of
from archgrad.data import Data, ImageData
from archgrad.discretizers import Argmax
from archgrad.distributed.environment import launched
from archgrad.distributed.processes import from_first
from archgrad.errors import DivergedError
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import Interrupt, own_global_state, seed_globally
from archgrad.loop.run import Run
from archgrad.loop.stages import example_stages
from archgrad.recipes import published_run
from archgrad.system import random_streams
from archgrad.system.devices import usable_device

__all__ = [
    "OVERHEAD",
    "Estimate",
    "choose_threads",
    "cores_for_threads",
    "estimate",
    "published_seconds",
    "step_seconds",
    "usable_cores",
]

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


def estimate(parts: ResolvedSearch, data: Data) -> Estimate:
    """Estimate the cost of a search of these images by a few of its steps; leave no files behind."""
    _forget_peak()
    stages = [Experiment.of(stage, data) for stage in example_stages(parts)]
    times = [step_seconds(stage.parts, data) for stage in stages]
    steps = [stage.weights.epochs * stage.steps for stage in stages]
    seconds = sum(count * taken for count, taken in zip(steps, times, strict=True))
    sizes = [_parameters(stage) for stage in stages]
    arch_steps = sum(stage.arch_steps for stage in stages)
    return Estimate(max(sizes), sum(steps), arch_steps, seconds / sum(steps), seconds * OVERHEAD, _peak())


def _parameters(stage: Experiment) -> int:
    supernet = stage.space.supernet(stage.options, **stage.network_shape)
    return sum(weight.numel() for weight in supernet.parameters())


def published_seconds(recipe: str, space: str, at_most: float = 5.0) -> float:
    """Estimate how long the published search with a recipe in a space takes on this machine, in seconds.

    It times steps with an eighth of the published batch, of random images in the shape of CIFAR-10's, for about
    ``at_most`` seconds in each stage, and takes their time to grow with the batch.
    """
    usual = SearchConfig(space=space, method=recipe)
    run = published_run(recipe, space_of(usual))
    size = max(run.batch_size // _SHARE, 2)
    parts, count = resolve(replace(usual, batch_size=size, held_out=0.0)), max(2 * size, 4 * _CLASSES)
    noise = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=random_streams.generator(0, "estimate"))
    data = ImageData("noise", noise, torch.arange(count) % _CLASSES, tuple(map(str, range(_CLASSES))))
    step = sum(step_seconds(stage, data, at_most) for stage in example_stages(parts))
    return run.weight_steps * step * run.batch_size / size * OVERHEAD


def step_seconds(parts: ResolvedSearch, data: Data, at_most: float = math.inf, at_least: float = 0.0) -> float:
    """Measure a step of a search: the mean of a few after the first, without warm-up, early stop and diagnostics.

    ``parts`` are those of a search without stages, or of one stage. The measurement ends early when it has taken
    ``at_most`` seconds and has timed two steps after the first, and takes ``at_least`` so many seconds if there are
    steps enough. The timed steps are a multiple of ``inner_steps``, so that the architecture has its share of them.
    """
    method, begun, times = parts.method, time.perf_counter(), list[float]()
    schedule = replace(method.schedule, warmup_epochs=0, warmup_share=0.0)
    derivation = Argmax() if method.discretizer.measures else method.discretizer
    method = replace(method, schedule=schedule, discretizer=derivation, stop=None, progressive=None)
    inner = schedule.inner_steps
    least, most = (math.ceil(count / inner) * inner for count in (_LEAST_TIMED, _TIMED))
    config = replace(parts.config, alpha_budget="off", compile=False)
    training = replace(parts.training, epochs=10 * most)
    timed = replace(parts, config=config, method=method, training=training, callbacks=())
    experiment = Experiment.of(timed, data)
    with own_global_state(experiment.device), experiment.reading():
        seed_globally(random_streams.seed_of(experiment.seed, "global"), experiment.device)
        run = Run(experiment, experiment.initial_state(), (), None, Interrupt())
        run.start()
        late = False
        while not late and not run.state.complete:
            run.step()
            times.append(time.perf_counter())
            count, taken = len(times) - 1, times[-1] - begun
            enough = taken >= at_most or (count >= most and taken >= at_least)
            late = from_first(partial(bool, enough and count >= least and count % inner == 0))
    return from_first(lambda: max((times[-1] - times[0]) / (len(times) - 1), 1e-6))


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


_GAIN = 0.9
"""More threads must take at most this share of the time: a machine may become busier, and then fewer are better."""
_STEPS = 3
_CONTAINER = Path("/sys/fs/cgroup/cpu.max")
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def choose_threads(parts: ResolvedSearch, data: Data) -> int:
    """Time a few weight steps of a search with 1, 2, 4, … threads as long as more are faster; set and return the best.

    Where other processes are busy, many threads wait for each other and are slower than one. A number that the
    environment fixes (OMP_NUM_THREADS) stays, and so does that of a search on another device than the CPU.
    """
    device = usable_device(parts.config.device)
    cores = cores_for_threads(parts.config.device)
    best, most = (1, cores) if cores else (torch.get_num_threads(),) * 2
    torch.set_num_threads(best)
    if best < most:
        *_, last = example_stages(parts)
        experiment = Experiment.of(replace(last, config=replace(parts.config, workers=0)), data)
        with own_global_state(device), suppress(DivergedError):  # the search itself says what diverges
            best = _fastest(experiment, most)
    torch.set_num_threads(best)
    return best


def cores_for_threads(device: str) -> int:
    """Return the number of cores for threads of this process; 0 where the environment or the device settles it."""
    if any(os.environ.get(name) for name in _VARIABLES) or usable_device(device).type != "cpu":
        return 0
    place = launched()
    return max(usable_cores() // (1 if place is None else place.local_size), 1)  # its processes share the machine


def _fastest(experiment: Experiment, most: int) -> int:
    state = experiment.initial_state()
    step = partial(experiment.stepper(state).weight_step, state, experiment.weight_loader.batch(0))
    best, fastest = 1, _seconds(step)
    while best < most:
        more = min(2 * best, most)
        torch.set_num_threads(more)
        taken = _seconds(step, fastest)
        if taken > _GAIN * fastest:
            break
        best, fastest = more, taken
    return best


def _seconds(step: Callable[[], object], fastest: float = math.inf) -> float:
    """Return the mean time of a few steps after the first; of the first alone if it is much slower than the fastest."""
    times = []
    for _ in range(1 + _STEPS):
        started = time.perf_counter()
        step()
        taken = time.perf_counter() - started
        times.append(from_first(partial(float, taken)))
        if times[0] > 2 * fastest:
            return times[0]
    return mean(times[1:])


def usable_cores() -> int:
    """Return the number of cores that this process may use: by its affinity, and by the limit of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    with suppress(OSError, ValueError):  # there is no limit, or it is the word "max"
        quota, period = map(int, _CONTAINER.read_text().split())
        cores = min(cores, quota // period)
    return max(cores, 1)
