"""From a configuration to an experiment: load the data, and choose the sizes and threads that are left open."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from archgrad import tables
from archgrad.callbacks import Callback
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.images import published_lines
from archgrad.config.resolve import ResolvedSearch, resolve
from archgrad.config.search_config import SIZE_FIELDS
from archgrad.data import Data
from archgrad.distributed.environment import launched
from archgrad.distributed.processes import processes
from archgrad.errors import ImageSizeError
from archgrad.loop.estimate import choose_threads, cores_for_threads
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import own_threads
from archgrad.loop.sizes import SEARCH_PIXELS, candidate_sizes, fit_sizes, seen_images, sized
from archgrad.system.amounts import counted
from archgrad.system.devices import AUTO, usable_device

__all__ = ["DEFAULT_MINUTES", "prepare"]

_log = logging.getLogger("archgrad")

DEFAULT_MINUTES = 5.0
"""The time limit of a search without given sizes."""

Tell = Callable[[str], None]


def prepare(
    config: SearchConfig,
    callbacks: Sequence[Callback] = (),
    *,
    standard_callbacks: bool = True,
    begun: Path | None = None,
    tell: Tell = _log.info,
    progress: Callable[[int, int], None] | None = None,
) -> Experiment:
    """Resolve a configuration, load its data, and choose the sizes and threads that it leaves open.

    ``begun`` is the run directory of a search to continue: its sizes are taken. ``tell`` gets a line about each step,
    and ``progress(done, total)`` how many images are read.
    """
    config = config if begun is None or config.is_sized else _sized_as(config, read_run_config(begun))
    with own_threads(config.threads):
        parts = resolve(config, callbacks, standard_callbacks=standard_callbacks)
        datasets = config.oracle_datasets(tables.datasets())  # rejects unknown ones before anything is loaded
        if config.device == AUTO:
            tell(f"searching on {usable_device(AUTO)} (--device)")
        tell(f"loading {str(config.data if isinstance(config.data, str) else config.data.name)[:100]}")
        is_sized = begun is not None or config.is_sized
        if is_sized:
            data = config.load_data(progress)
        else:
            config, data = _load_any_size(config, progress)
            config = _sized(config, data, tell)
            parts = resolve(config, callbacks, standard_callbacks=standard_callbacks)
            data = config.load_data() if config.limit or config.search_size else data
        if config.threads is None:
            threads = choose_threads(parts, data) if begun is None else torch.get_num_threads()
            tell(f"{counted(threads, 'thread')} (--threads){_about_idle_cores(parts, threads)}")
            parts = replace(parts, config=replace(config, threads=threads))
        parts, sources = _with_oracles(parts, datasets, tell) if processes().rank == 0 else (parts, "")
        for line in published_lines(parts, data) if config.published else ():
            tell(line)
        return replace(Experiment.of(parts, data, begun), tables=sources)


def _about_idle_cores(parts: ResolvedSearch, threads: int) -> str:
    """Say how to use the cores that more threads of one search would not."""
    times = cores_for_threads(parts.config.device) // threads
    if times < 2 or launched() is not None or parts.method.discretizer.measures:
        return ""
    return f", more are not faster; --voters {times} searches {times} times at once, and lets the searches vote"


def _sized_as(config: SearchConfig, begun: SearchConfig) -> SearchConfig:
    """Return the configuration with the sizes that a search was begun with."""
    sizes = {name: getattr(begun, name) for name in SIZE_FIELDS}
    return replace(config.with_sizes(), **sizes, time_limit=0.0)


def _load_any_size(config: SearchConfig, progress: Callable[[int, int], None] | None) -> tuple[SearchConfig, Data]:
    """Load the images as they are, photos of unequal sizes at the size of a search; return the configuration, too."""
    try:
        return config, config.load_data(progress)
    except ImageSizeError:
        config = replace(config, search_size=SEARCH_PIXELS)
        return config, config.load_data(progress)


def _sized(config: SearchConfig, data: Data, tell: Tell) -> SearchConfig:
    """Choose the open sizes for the time limit."""
    limit = DEFAULT_MINUTES if config.time_limit is None else config.time_limit
    tell(f"choosing sizes that fit into {limit:g} minutes (--time-limit)")
    if config.threads is None:  # for the measurements; the chosen size may be fastest with other threads
        first = sized(config, candidate_sizes(config, data)[0])
        choose_threads(resolve(first), seen_images(first, data))
    sizes = fit_sizes(replace(config, time_limit=limit), data, tell)
    tell(str(sizes))
    return sizes.config


def _with_oracles(parts: ResolvedSearch, datasets: Sequence[str], tell: Tell) -> tuple[ResolvedSearch, str]:
    """Add the callbacks that look up accuracies; return a text that names their tables, too."""
    found, sources = tables.oracles_for(parts.space, datasets)
    if sources:
        tell(sources)
    elif parts.config.oracle not in ("auto", "none"):
        tell(f"no oracle accuracy: there is no table of {parts.config.oracle} for the space {parts.space.name!r}")
    return replace(parts, callbacks=(*parts.callbacks, *found)), sources
