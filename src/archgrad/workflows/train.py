"""Train an architecture from scratch, by the loop of the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.config.resolve import resolve
from archgrad.data import Data, as_data
from archgrad.distributed.processes import joined, processes
from archgrad.loop.entry import run_search
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import own_global_state, take_turns
from archgrad.loop.result import SearchResult
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system.files import as_path, exists
from archgrad.tasks import BaseTask
from archgrad.workflows.continuing import continued_in
from archgrad.workflows.train_result import TrainedSeed, TrainResult, result_of, trained_seed
from archgrad.workflows.training_config import training_config
from archgrad.workflows.training_folder import PLAN, begin, check_begun, read_plan, write_result
from archgrad.workflows.training_plan import TrainingPlan, seeds_of

__all__ = ["resume_training", "run_training", "train"]


def train(
    space: SearchSpace | str,
    genotype: Genotype | str,
    data: Any = "digits",
    *,
    preset: str = "quick",
    seeds: int | Sequence[int] = 1,
    test: Any = None,
    start_from: Path | str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> TrainResult:
    """Train the network of a genotype from scratch, and measure it.

    ``genotype`` is an object, its text, or the name of a well-known cell. ``preset`` is "quick", or the settings of a
    paper such as "cifar-darts" (see ``archgrad list presets``). A ``space`` by its name gets the size of the preset; a
    space object keeps its own. ``data`` and most ``options`` are those of :func:`archgrad.search`: ``epochs``,
    ``batch_size``, ``channels``, ``cells``, ``stem``, ``held_out``, ``device``, ``workers``, ``task``, ``time_limit``,
    and ``settings`` such as ``{"weights.lr": 0.05, "weights.ema_decay": 0.999, "supernet.drop_path": 0.2}``.

    ``seeds`` is a number of trainings, with the seeds ``seed``, ``seed`` + 1, …, or the seeds themselves. ``test`` has
    the test images, by default those of the data's own source, if it has any. ``start_from`` is the folder of a trained
    model whose weights are the first ones, as far as they fit.

    ``out`` is the run directory, with one folder for each seed if there are several. Each has the files of a search,
    ``model/`` (:class:`archgrad.models.Model`), and ``result.json``. ``resume`` continues there, to the same bits.
    """
    with take_turns():
        start = None if start_from is None else str(as_path("start_from", start_from).resolve())
        config = training_config(space, genotype, as_data(data), preset, start, **options)
        plan = TrainingPlan(config, preset, seeds_of(seeds, config.seed), test, "held_out" not in options)
        return run_training(plan, out=out, resume=resume, interruptible=interruptible, callbacks=callbacks)


def resume_training(
    folder: Path | str,
    *,
    space: SearchSpace | None = None,
    data: Any = None,
    task: BaseTask | None = None,
    test: Any = None,
    workers: int | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
) -> TrainResult:
    """Continue the training in a run directory, to the same bits as if it had never stopped.

    Objects that the directory could not name, such as images in memory or a space of your own, must be given again. The
    number of ``workers`` may differ from before.
    """
    home = as_path("folder", folder)
    given = {"space": space, "data": None if data is None else as_data(data), "task": task, "workers": workers}
    plan = read_plan(home, {name: one for name, one in given.items() if one is not None}, test)
    return run_training(plan, out=home, resume=True, interruptible=interruptible, callbacks=callbacks)


def run_training(
    plan: TrainingPlan,
    *,
    data: Data | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    on_seed: Callable[[TrainingPlan, int], None] = lambda plan, seed: None,
) -> TrainResult:
    """Carry out a plan; ``data`` are its training images if already loaded, and ``on_seed`` is told each seed."""
    folder = None if out is None else as_path("out", out)
    with take_turns(), joined(plan.config.device):
        plan, data, tests = plan.complete(data)
        if folder is not None and resume:
            check_begun(folder, plan)
        elif folder is not None and len(plan.seeds) > 1:
            _check_start(plan, data)
            begin(folder, plan, data)
        runs: list[TrainedSeed] = []
        for seed in plan.seeds:
            on_seed(plan, seed)
            home = folder if folder is None or len(plan.seeds) == 1 else folder / f"seed-{seed}"
            found = _train_seed(plan, seed, data, folder, home, resume, interruptible, callbacks)
            runs.append(trained_seed(found, seed, tests, home))
            if home is not None and processes().rank == 0:
                runs[-1].model.save(home / "model")
        result = result_of(found, tuple(runs))
        if folder is not None and processes().rank == 0:
            write_result(folder, result)
        return result


def _check_start(plan: TrainingPlan, data: Data) -> None:
    """Raise the error of a training that cannot start, before anything is written."""
    experiment = Experiment.of(resolve(plan.config, standard_callbacks=False), data)
    with own_global_state(experiment.device), experiment.reading():
        experiment.initial_state()


def _train_seed(
    plan: TrainingPlan,
    seed: int,
    data: Data,
    folder: Path | None,
    home: Path | None,
    resume: bool,
    interruptible: bool,
    callbacks: Sequence[Callback],
) -> SearchResult:
    """Train with one seed in its ``home``, from its beginning or from its checkpoint."""
    again = resume and (home is None or exists(home / "config.toml"))
    with continued_in(folder, f", seed {seed}"):
        return run_search(
            replace(plan.config, seed=seed), images=data, out=home, resume=again,
            files={PLAN: plan.to_text()} if home is not None and home == folder and not again else None,
            interruptible=interruptible, callbacks=callbacks, standard_callbacks=False,
        )  # fmt: skip
