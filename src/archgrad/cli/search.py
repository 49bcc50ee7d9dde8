"""Run a configured search: load its data, choose its sizes, show its progress and draw its cell."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.config import SearchConfig, config_with, published_lines, validate
from archgrad.errors import UserError
from archgrad.system.files import exists

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.callbacks import Callback
    from archgrad.data import Data
    from archgrad.spaces import SearchSpace

DEFAULT_MINUTES = 5.0
"""The time limit of a search without given sizes."""

_MOST_THREADS = 256
"""So many threads can always be asked for: a run keeps its number of threads on a smaller machine."""

__all__ = ["DEFAULT_MINUTES", "load", "new_folder", "run", "run_folder", "with_threads"]


def run(config: SearchConfig, out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Run or resume a search, draw its cell, and return the content of ``summary.json`` and the final report.

    Without ``out`` the run gets a new directory under ``runs/``. Of several processes only the first one returns them.
    """
    from archgrad import report, tables
    from archgrad.cli.console import say
    from archgrad.cli.final_report import final_report
    from archgrad.cli.progress import progress_for
    from archgrad.distributed.processes import processes
    from archgrad.loop.entry import run_search

    config = config_with(with_threads(config), {})
    validate(config)
    config.oracle_datasets(tables.datasets())  # rejects unknown ones before anything is loaded
    if resume and out is not None and exists(out / "summary.json"):
        say(f"the search in {out} is finished: nothing is left to do, and this is its result", console)
    config, data = load(config, console, choose_sizes=not resume)
    writes = processes().rank == 0
    oracles, sources = _oracles(config, config.build_space(), console) if writes else ([], "")
    kinds = f"of {data.num_classes} classes" if data.classes else f"for {config.task}"
    loaded = f"{len(data):,} images {kinds}, {data.shape[1]}×{data.shape[2]} pixels"
    loaded += ", read when they are needed" if data.lazy else ""
    with run_folder(out, _title(config), config.seed) as out, closing(progress_for(console)) as progress:
        say(f"{config.method} on {config.space}, {loaded}, seed {config.seed}, run directory {str(out)[:200]}", console)
        for line in published_lines(config, data) if config.published else ():
            say(line, console)
        result = run_search(
            config, images=data, out=out, resume=resume, files={"oracle.txt": f"{sources}\n"} if sources else {},
            interruptible=True, callbacks=[*oracles, progress],
        )  # fmt: skip
    if not writes:
        return {}
    if not result.undecided:
        report.draw(result.genotype, out / "cell.svg")
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return summary | final_report(result, config, data, out)


def load(config: SearchConfig, console: Console, choose_sizes: bool = True) -> tuple[SearchConfig, Data]:
    """Load the data and choose the sizes that the configuration leaves open."""
    from archgrad.cli.console import errors, say
    from archgrad.cli.progress import reading_progress
    from archgrad.system.devices import AUTO, usable_device

    if config.device == AUTO:
        say(f"searching on {usable_device(AUTO)} (--device)", console)
    say(f"loading {str(config.data)[:100]}", console)
    with reading_progress(errors(), images=True) as progress:
        data = config.load_data(progress)
    if choose_sizes and not config.is_sized:
        config = _sized(config, data, console)
        data = config.load_data() if config.limit else data
    return _with_fastest_threads(config, data, choose_sizes, console), data


def _with_fastest_threads(config: SearchConfig, data: Data, choose: bool, console: Console) -> SearchConfig:
    """Choose the number of threads if the configuration leaves it open, and record it for resumes."""
    import torch

    from archgrad.cli.console import say
    from archgrad.loop.threads import choose_threads

    if config.threads is not None:
        return config
    threads = choose_threads(config, data) if choose else torch.get_num_threads()
    say(f"{threads} thread{'' if threads == 1 else 's'} (--threads)", console)
    return replace(config, threads=threads)


def _sized(config: SearchConfig, data: Data, console: Console) -> SearchConfig:
    """Choose the open sizes for the time limit, and print them."""
    from archgrad.cli.console import say
    from archgrad.loop.threads import choose_threads
    from archgrad.workflows.search_sizes import candidate_sizes, fit_sizes

    limit = DEFAULT_MINUTES if config.time_limit is None else config.time_limit
    say(f"choosing sizes that fit into {limit:g} minutes (--time-limit)", console)
    if config.threads is None:  # for the measurements; the chosen size may be fastest with other threads
        channels, cells = candidate_sizes(config)[0]
        choose_threads(replace(config, channels=channels, cells=cells), data)
    sizes = fit_sizes(replace(config, time_limit=limit), data, lambda text: say(text, console))
    say(str(sizes), console)
    return sizes.config


def _title(config: SearchConfig) -> str:
    kind, _, source = str(config.data).partition(":")
    data = f"{kind}-{Path(source).stem}" if source else kind
    return f"{config.space}-{config.method}-{data}"


def new_folder(title: str, seed: int) -> Path:
    """Make a new folder under ``runs/`` with this title in its name; two runs never share one."""
    base = re.sub(r"[^\w.-]+", "-", title[:100]) + f"-seed{str(seed)[:20]}"
    for number in itertools.count(1):
        path = Path("runs") / (base if number == 1 else f"{base}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if not path.parent.is_dir():
                raise UserError("'runs' is a file, so it cannot hold a run directory; give --out DIR.") from None
        except OSError as error:
            raise UserError(f"cannot make the folder {path} ({error.strerror}); give --out DIR.") from error
    raise AssertionError("unreachable")


@contextmanager
def run_folder(out: Path | None, title: str, seed: int) -> Iterator[Path]:
    """Give the folder of a run, a new one if ``out`` is None; one that stays empty is removed again."""
    from archgrad.distributed.processes import from_first, processes

    first = not exists(Path("runs"))
    home = out or Path(from_first(lambda: str(new_folder(title, seed))))
    try:
        yield home
    finally:
        if out is None and processes().rank == 0:
            with suppress(OSError):  # they are not empty once the run has begun
                home.rmdir()
                if first:
                    home.parent.rmdir()


def with_threads(config: SearchConfig) -> SearchConfig:
    """Set the number of threads, because the last bits of a sum depend on it; None is chosen once data is loaded."""
    import torch

    if config.threads is None:
        return config
    most = max(_MOST_THREADS, 4 * (os.cpu_count() or 1))
    if config.threads > most:
        raise UserError(f"threads is {config.threads}; there are {os.cpu_count()} CPUs, so give at most {most}.")
    torch.set_num_threads(config.threads)
    return config


def _oracles(config: SearchConfig, space: SearchSpace, console: Console) -> tuple[list[Callback], str]:
    """Return the callbacks that look up accuracies, and a text that names their tables."""
    from archgrad import tables
    from archgrad.cli.console import say

    datasets = config.oracle_datasets(tables.datasets())
    watched, said = tables.oracles_for(space, datasets)
    if said:
        say(said, console)
    elif config.oracle not in ("auto", "none"):
        say(f"no oracle accuracy: there is no table of {config.oracle} for the space {space.name!r}", console)
    return watched, said
