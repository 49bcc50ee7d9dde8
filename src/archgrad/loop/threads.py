"""The number of CPU threads of a search: the fastest one on this machine, as busy as it is now."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean

import torch

from archgrad.config.resolve import ResolvedSearch
from archgrad.data import Data
from archgrad.distributed.environment import launched
from archgrad.distributed.processes import from_first
from archgrad.errors import DivergedError
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import own_global_state
from archgrad.loop.stages import example_stages
from archgrad.system.devices import usable_device

__all__ = ["choose_threads", "usable_cores"]

_GAIN = 0.9
"""More threads must take at most this share of the time: a machine may become busier, and then fewer are better."""
_STEPS = 3
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def choose_threads(parts: ResolvedSearch, data: Data) -> int:
    """Time a few weight steps of a search with 1, 2, 4, … threads as long as more are faster; set and return the best.

    Where other processes are busy, many threads wait for each other and are slower than one. A number that the
    environment fixes (OMP_NUM_THREADS) stays, and so does that of a search on another device than the CPU.
    """
    device = usable_device(parts.config.device)
    fixed = any(os.environ.get(name) for name in _VARIABLES) or device.type != "cpu"
    most = torch.get_num_threads() if fixed else max(usable_cores() // _processes_here(), 1)
    best = most if fixed else 1
    torch.set_num_threads(best)
    if best < most:
        *_, last = example_stages(parts)
        experiment = Experiment.of(replace(last, config=replace(parts.config, workers=0)), data)
        with own_global_state(device), suppress(DivergedError):  # the search itself says what diverges
            best = _fastest(experiment, most)
    torch.set_num_threads(best)
    return best


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


def _processes_here() -> int:
    """Return how many processes of this search share the machine."""
    place = launched()
    return 1 if place is None else place.local_size


def usable_cores() -> int:
    """Return the number of cores that this process may use: by its affinity, and by the limits of its containers."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    return max(1, int(min(cores, _quota())))


def _quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """Return the number of cores that control groups of Linux grant, infinity if they set no limit."""
    granted = math.inf
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            home = root / controllers if controllers else root
            folder = home / place.strip("/")
            for group in (folder, *folder.parents):
                if group.is_relative_to(home):
                    granted = min(granted, _limit(group))
    return granted


def _limit(group: Path) -> float:
    """Return quota / period of one control group, of version 2 or 1."""
    with suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError):
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return math.inf if int(quota) < 0 else int(quota) / int(period)
    return math.inf
