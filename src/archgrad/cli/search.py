"""Run a configured search: prepare it, show its progress and draw its cell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.config import SearchConfig
from archgrad.config.naming import config_with
from archgrad.errors import UserError, shortened
from archgrad.system.files import exists

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.callbacks import Callback
    from archgrad.loop import Experiment

__all__ = ["load", "new_folder", "run", "run_folder", "with_threads"]


def run(config: SearchConfig, out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Run or resume a search, draw its cell, and return the content of ``summary.json`` and the final report.

    Without ``out`` the run gets a new directory under ``runs/``. Of several processes only the first one returns them.
    """
    from archgrad import report
    from archgrad.callbacks.progress import SearchProgress
    from archgrad.cli.console import say
    from archgrad.cli.final_report import final_report
    from archgrad.distributed.processes import processes
    from archgrad.loop import Search

    if resume and out is not None and exists(out / "summary.json"):
        say(f"the search in {out} is finished: nothing is left to do, and this is its result", console)
    with closing(SearchProgress(console)) as progress:
        experiment = load(config_with(config, {}), console, out if resume else None, [progress])
        with run_folder(out, _title(config), config.seed) as home:
            say(_headline(experiment, home), console)
            result = Search.of(experiment, out=home, resume=resume, interruptible=True).result()
    if processes().rank:
        return {}
    if not result.undecided:
        report.draw(result.genotype, home / "cell.svg")
    return result.summary | final_report(result, home)


def load(
    config: SearchConfig, console: Console, begun: Path | None = None, callbacks: Sequence[Callback] = ()
) -> Experiment:
    """Load the data, and choose the sizes and threads that the configuration leaves open."""
    from archgrad.callbacks.progress import reading_progress
    from archgrad.cli.console import errors, say
    from archgrad.loop.prepare import prepare

    with reading_progress(errors(), images=True) as progress:
        return prepare(config, callbacks, begun=begun, tell=lambda text: say(text, console), progress=progress)


def _headline(experiment: Experiment, home: Path) -> str:
    config, data = experiment.config, experiment.data
    kinds = f"of {data.num_classes} classes" if data.classes else f"for {config.task}"
    loaded = f"{len(data):,} images {kinds}, {data.shape[1]}×{data.shape[2]} pixels"
    loaded += ", read when they are needed" if data.lazy else ""
    seed = shortened(config.seed)
    return f"{config.method} on {config.space}, {loaded}, seed {seed}, run directory {str(home)[:200]}"


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
    """Set the number of threads of this process, unless the configuration leaves it open."""
    from archgrad.loop.global_state import set_threads

    if config.threads is not None:
        set_threads(config.threads)
    return config
