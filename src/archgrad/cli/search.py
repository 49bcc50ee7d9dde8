"""Run a configured search, with its progress and the drawing of its cell, or only estimate it (``--dry-run``)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.config import SearchConfig
from archgrad.config.naming import config_with
from archgrad.errors import UserError, shortened
from archgrad.system.amounts import counted
from archgrad.system.files import exists

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.callbacks import Callback
    from archgrad.loop import Experiment

__all__ = ["duration", "estimated", "load", "new_folder", "run", "run_folder", "show_estimate", "title", "with_threads"]


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
        with run_folder(out, title(config), config.seed) as home:
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


def estimated(config: SearchConfig, console: Console) -> dict[str, Any]:
    """Check a configuration, choose the sizes that it leaves open, and time a few steps; write no file."""
    from archgrad.cli.console import say
    from archgrad.loop.estimate import estimate
    from archgrad.loop.global_state import own_threads

    experiment = load(config, console)
    config, data, space, training = experiment.config, experiment.data, experiment.space, experiment.weights
    say("measuring a few steps", console)
    with own_threads(config.threads):
        found = estimate(experiment.parts, data)
    stages = experiment.method.progressive
    sizes = {
        "space": config.space, "method": config.method, "data": config.data, "images": len(data),
        "image_size": data.image_size, "shape": data.shape, "classes": data.num_classes, "channels": space.channels,
        "depth": getattr(space, space.depth_knob) if stages is None else [stage.cells for stage in stages.stages],
        "epochs": training.epochs, "batch_size": config.batch_size or training.batch_size, "threads": config.threads,
    }  # fmt: skip
    return sizes | asdict(found)


def show_estimate(found: Mapping[str, Any]) -> str:
    """Format the estimate in a few lines."""
    depth, memory, classes = found["depth"], found["peak_megabytes"], found["classes"]
    stages = f" in each of {len(depth)} stages" if isinstance(depth, list) else ""
    return "\n".join(
        [
            f"{found['method']} on {found['space']} would search {found['images']:,} images "
            f"{f'of {classes} classes' if classes else 'without classes'}, "
            f"{found['shape'][1]}×{found['shape'][2]} pixels",
            f"sizes      {found['channels']} channels, depth {', '.join(map(str, depth)) if stages else depth}, "
            f"{counted(found['epochs'], 'epoch')}{stages}, batches of {found['batch_size']}",
            f"supernet   {found['parameters']:,} parameters",
            f"steps      {found['weight_steps']:,} of the weights, {found['arch_steps']:,} of the architecture",
            f"time       {found['step_seconds']:.2g} s per step, about {duration(found['seconds'])} in total",
            f"memory     {'unknown here' if memory is None else f'{memory:,.0f} MB at the peak of the measured steps'}",
            "nothing was started; leave out --dry-run to search",
        ]
    )


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes, hours or days.

    >>> duration(95), duration(1000), duration(10000), duration(400000)
    ('95 seconds', '17 minutes', '2.8 hours', '4.6 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    if seconds < 48 * 3600:
        return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86400:.1f} days"


def _headline(experiment: Experiment, home: Path) -> str:
    config, data = experiment.config, experiment.data
    kinds = f"of {data.num_classes} classes" if data.classes else f"for {config.task}"
    loaded = f"{len(data):,} images {kinds}, {data.shape[1]}×{data.shape[2]} pixels"
    loaded += ", read when they are needed" if data.lazy else ""
    seed = shortened(config.seed)
    return f"{config.method} on {config.space}, {loaded}, seed {seed}, run directory {str(home)[:200]}"


def title(config: SearchConfig) -> str:
    """Return what is searched, and how, for the name of a folder."""
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
