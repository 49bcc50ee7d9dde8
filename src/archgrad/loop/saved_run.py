"""Write the states of a search as a run directory, and read them again without changing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.naming import config_with
from archgrad.config.resolve import resolve
from archgrad.data import as_data
from archgrad.hypergradients import Batches, EvaluationPoint
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import FallbackCheckpoints, RunFolder, StageOf, stage_folder
from archgrad.loop.global_state import own_global_state
from archgrad.loop.stages import SearchedStages, first_space, next_space, number_of_stages, stage_of
from archgrad.loop.state import SearchState
from archgrad.system.files import as_path

__all__ = ["config_of_run", "evaluate_at_state", "reopen", "restore_run", "save_stages"]


def save_stages(stages: SearchedStages, folder: Path | str, again: bool = False) -> Path:
    """Write a run directory from the states in memory; ``again`` replaces an earlier state of the same search."""
    path, whole = as_path("folder", folder), stages.whole
    home = RunFolder(path, whole.identity, {"config.toml": whole.describe()})
    with home.opened(again and home.is_begun()):
        if whole.parts.method.progressive is None:
            _write(home, stages.runs[0][1], stages.fallback)
            return path
        home.begin()
        for number, (experiment, state) in enumerate(stages.runs, 1):
            own = home.stage(experiment.identity, StageOf(path, number, number_of_stages(whole.parts)))
            with own.opened(own.is_begun()):
                _write(own, state, stages.fallback if number == len(stages.runs) else {})
        home.show(stages.history, stages.runs[-1][1].genotype)
        if stages.complete:
            home.conclude(stages.summary)
    return path


def _write(folder: RunFolder, state: SearchState, fallback: dict[str, Any]) -> None:
    folder.on_search_start(state)
    folder.save(state)
    if fallback:
        folder.save_fallback(fallback)
    if state.complete:
        folder.on_search_end(state)


def config_of_run(home: Path, given: Mapping[str, Any]) -> SearchConfig:
    """Read the configuration of a run directory; ``given`` has objects that it could not name, or None."""
    described = read_run_config(home)
    objects = {name: as_data(one) if name == "data" else one for name, one in given.items() if one is not None}
    return config_with(described, objects)


def reopen(config: SearchConfig, home: Path, callbacks: Sequence[Callback] = ()) -> SearchedStages:
    """Restore the last saved state of a run, or of every stage that has begun."""
    whole = Experiment.of(resolve(config, callbacks), config.load_data(), home)
    if whole.parts.method.progressive is None:
        return SearchedStages(whole, ((whole, restore_run(whole, home)),), _fallback(whole, home))
    found: list[tuple[Experiment, SearchState]] = []
    searched = first_space(whole.parts)
    for number in range(1, number_of_stages(whole.parts) + 1):
        own = stage_folder(home, number)
        if found and not Checkpoints(own).exist():
            break
        if found:
            last, state = found[-1]
            kept = last.method.relaxation.probabilities(last.blocks, state.alpha)
            searched = next_space(whole.parts, searched, kept, number - 1)
        experiment = stage_of(whole, number, searched, own)
        found.append((experiment, restore_run(experiment, own)))
    return SearchedStages(whole, tuple(found), _fallback(found[-1][0], stage_folder(home, len(found))))


def _fallback(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """Return the saved state that the search may go back to; empty if there is none."""
    kept = FallbackCheckpoints(folder)
    return kept.load(experiment.identity) if kept.exist() else {}


def restore_run(experiment: Experiment, folder: Path) -> SearchState:
    """Return the last saved state of a run."""
    saved = Checkpoints(folder).load(experiment.identity)
    with own_global_state(experiment.device):
        state = experiment.initial_state()
    state.restore(saved)
    return state


@contextmanager
def evaluate_at_state(
    experiment: Experiment, state: SearchState, batch: int, inner_batches: int = 1
) -> Iterator[EvaluationPoint]:
    """Open the evaluation point of a search, with the batches of ``batch`` steps later."""
    batches = experiment.step_batches(state.index + batch)
    inner = Batches(map(batches.inner, range(inner_batches)))
    step = experiment.stepper(state).in_full_precision().bilevel_step(state)
    with step.at(state.alpha, inner, batches.outer()) as point:
        yield point
