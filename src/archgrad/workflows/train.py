"""Train an architecture from scratch, by the loop of the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.callbacks.progress import Display
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Data, as_data
from archgrad.distributed.processes import processes
from archgrad.errors import UserError, shortened
from archgrad.loop import SearchResult
from archgrad.loop.entry import run_search
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import own_global_state, take_turns
from archgrad.report.page import to_html
from archgrad.report.page.trainings import page_of_training
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system.files import as_path, exists, write_text
from archgrad.workflows.folders import REPORT, run_alone, to_json
from archgrad.workflows.train_result import TrainedSeed, TrainResult, result_of, trained_seed
from archgrad.workflows.training import PLAN, Training

__all__ = ["run_training", "searched_images", "train"]

RESULT = "result.json"


def train(
    space: SearchSpace | str | SearchResult,
    genotype: Genotype | str | None = None,
    data: Any = None,
    *,
    preset: str = "quick",
    seeds: int | Sequence[int] = 1,
    test: Any = None,
    start_from: Path | str | None = None,
    out: Path | str | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    **options: Any,
) -> TrainResult:
    """Train the network of a genotype from scratch, and measure it.

    ``space`` is a space by its name or as an object, and ``genotype`` an object, its text, or the name of a well-known
    cell. Or give the result of a search alone: ``train(result)`` trains its genotype on its data, for its task.

    ``preset`` is "quick", or the settings of a paper such as "cifar-darts" (see ``archgrad list presets``). It brings
    the size of the network too, also if the space is an object: ``channels``, ``cells`` and ``stem`` change that.
    ``data`` (by default digits) and most ``options`` are those of :func:`archgrad.search`: ``epochs``, ``batch_size``,
    ``held_out``, ``device``, ``workers``, ``task``, ``time_limit``, and ``settings`` such as
    ``{"weights.lr": 0.05, "weights.ema_decay": 0.999, "supernet.drop_path": 0.2}``.

    ``seeds`` is a number of trainings, with the seeds ``seed``, ``seed`` + 1, …, or the seeds themselves. ``test`` has
    the test images, by default those of the data's own source, if it has any. ``start_from`` is the folder of a trained
    model whose weights are the first ones, as far as they fit; a network of its space has its width and depth, unless
    they are given.

    ``out`` is the run directory, with one folder for each seed if there are several. Each has the files of a search,
    ``model/`` (:class:`archgrad.models.Model`), and ``result.json``; ``report.html`` is a page about all of it.
    :func:`archgrad.resume` continues there. In a terminal or a notebook the training shows its progress; ``progress``
    switches that on or off.
    """
    if isinstance(space, SearchResult):
        if genotype is not None:
            raise UserError(f"genotype is {shortened(genotype)}, but the result of the search has one; leave it out.")
        space, genotype, options = _after(space, data, options)
        data = options.pop("data", data)
    elif genotype is None:
        raise UserError("the genotype is missing; give one after the space, or the result of a search alone.")
    with take_turns(), closing(Display(progress, shows_cell=False)) as display:  # scanning data seeds global generators
        images = as_data("digits" if data is None else data)
        how: dict[str, Any] = {"preset": preset, "seeds": seeds, "test": test, "start_from": start_from}
        training = Training.of(space, genotype, images, **how, **options)
        watching = (*callbacks, *display.callbacks)
        return run_training(training, out=out, interruptible=interruptible, callbacks=watching, report=True)


def _after(result: SearchResult, data: Any, options: dict[str, Any]) -> tuple[SearchSpace, Genotype, dict[str, Any]]:
    """Return the space and the genotype of a finished search, and the options with its data and task."""
    if result.undecided:
        raise UserError("the search has chosen no architecture: all choices tie exactly; search for longer.")
    found = searched_images(result.stages.whole.config) if data is None else {}
    return result.space, result.genotype, {**found, **options}


def searched_images(config: SearchConfig) -> dict[str, Any]:
    """Return the data and the task of a search as options of a training, without a limit of the images."""
    names = ("data", "data_dir", "image_size", "resize", "strict", "task")
    return {name: one for name in names if (one := getattr(config, name)) is not None}


def run_training(
    training: Training,
    *,
    data: Data | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    on_seed: Callable[[Training, int], None] = lambda training, seed: None,
    report: bool = False,
) -> TrainResult:
    """Carry out a training; ``data`` are its images if already loaded, and ``on_seed`` is told each seed.

    With ``report`` its folder gets a page.
    """
    folder = None if out is None else as_path("out", out)
    several = len(training.seeds) > 1
    with run_alone(training.config.device, None):
        training, data, tests = training.complete(data)
        if folder is not None and several and not resume:
            _check_start(training.config, data)
            training.write(folder, data, "training")
        runs: list[TrainedSeed] = []
        for seed in training.seeds:
            on_seed(training, seed)
            home = folder / f"seed-{seed}" if folder is not None and several else folder
            with run_alone(training.config.device, folder, f", seed {seed}"):
                found = _train_seed(training, seed, data, home, resume, interruptible, callbacks)
            runs.append(trained_seed(found, training.network, seed, tests, home))
            if home is not None and processes().rank == 0:
                runs[-1].model.save(home / "model")
        result = result_of(found, training.network, tuple(runs))
        if folder is not None and processes().rank == 0:
            write_text(folder / RESULT, to_json(result.to_dict()))
            if report:
                write_text(folder / REPORT, to_html(page_of_training(folder)))
        return result


def _check_start(config: SearchConfig, data: Data) -> None:
    """Raise the error of a training that cannot start, before anything is written."""
    experiment = Experiment.of(resolve(config, standard_callbacks=False), data)
    with own_global_state(experiment.device), experiment.reading():
        experiment.initial_state()


def _train_seed(
    training: Training,
    seed: int,
    data: Data,
    home: Path | None,
    resume: bool,
    interruptible: bool,
    callbacks: Sequence[Callback],
) -> SearchResult:
    """Train with one seed in its folder, from its beginning or from its checkpoint."""
    described = home is not None and len(training.seeds) == 1
    last = PLAN if described else "config.toml"  # of its first files: without it the seed begins again
    begun = resume and (home is None or exists(home / last))
    return run_search(
        replace(training.config, seed=seed), images=data, out=home, resume=begun, interruptible=interruptible,
        files={PLAN: training.to_text()} if described else None, callbacks=callbacks, standard_callbacks=False,
        kind="training",
    )  # fmt: skip
