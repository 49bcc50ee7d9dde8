"""The stages of a search, of which most have one: each searches the part of the space that the one before it kept.

Their states are written to a run directory, and read again without changing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from archgrad.autodiff.tensors import Probabilities
from archgrad.callbacks import Callback, Record
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.naming import config_with
from archgrad.config.resolve import ResolvedSearch, resolve
from archgrad.data import as_data
from archgrad.discretizers import Argmax
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import RunFolder, StageFolder, ending_of, numbered_through, stage_folder, summary_of
from archgrad.loop.global_state import own_global_state
from archgrad.loop.state import SearchState
from archgrad.spaces import SearchSpace
from archgrad.system import random_streams
from archgrad.system.files import as_path

__all__ = [
    "SearchedStages",
    "config_of_run",
    "example_stages",
    "number_of_stages",
    "reopen",
    "restore_run",
    "stage_parts",
]


def number_of_stages(parts: ResolvedSearch) -> int:
    """Return the number of stages; a method without stages has one."""
    plan = parts.method.progressive
    return 1 if plan is None else len(plan.stages)


def stage_parts(parts: ResolvedSearch, number: int, space: SearchSpace) -> ResolvedSearch:
    """Return the parts of one stage, counted from 1, that searches this space.

    Only the last stage limits skip connections, and only there runs a discretizer that derives once.
    """
    plan = parts.method.progressive
    if plan is None:
        return parts
    method, derivation = parts.method.in_stage(number - 1, space), parts.method.discretizer
    if number < len(plan.stages):
        derivation = Argmax() if derivation.once else derivation
    elif plan.max_skips is not None:
        derivation = LimitedSkips(derivation, plan.max_skips)
    method = replace(method, discretizer=derivation)
    method.check(space)
    return replace(parts, space=space, method=method)


def _space_of_stage(
    parts: ResolvedSearch, number: int, before: SearchSpace, probabilities: Probabilities | None
) -> SearchSpace:
    """Return the space of a stage, counted from 1, given that of the stage ``before`` and its probabilities."""
    plan = parts.method.progressive
    if plan is None:
        return before
    return plan.sized(before, 0) if probabilities is None else plan.narrowed(before, probabilities, number - 1)


def example_stages(parts: ResolvedSearch) -> Iterator[ResolvedSearch]:
    """Yield the parts of each stage with choices dropped at random, to estimate costs."""
    space, drawn, generator = parts.space, None, random_streams.generator(0, "estimate")
    for number in range(1, number_of_stages(parts) + 1):
        space = _space_of_stage(parts, number, space, drawn)
        yield stage_parts(parts, number, space)
        shapes = {block.name: block.shape for block in space.blocks}
        drawn = Probabilities({name: torch.rand(shape, generator=generator) for name, shape in shapes.items()})


@dataclass(frozen=True, eq=False)
class SearchedStages:
    """The experiment and the state of every stage of a search that has begun, the present one last.

    ``whole`` is the experiment of the whole search, and ``fallback`` the state that its last stage may go back to.
    """

    whole: Experiment
    runs: list[tuple[Experiment, SearchState]] = field(default_factory=list)
    fallback: dict[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of stages that the search has in the end."""
        return number_of_stages(self.whole.parts)

    @property
    def staged(self) -> bool:
        """Whether the method is progressive: then each stage has a folder and a number in its records."""
        return self.whole.parts.method.progressive is not None

    @property
    def complete(self) -> bool:
        """Whether no step of any stage is left."""
        return len(self.runs) == self.count and self.runs[-1][1].complete

    @property
    def history(self) -> list[Record]:
        """The records of all stages."""
        records: list[Record] = []
        for number, (_, state) in enumerate(self.runs, 1):
            records += numbered_through(state.history, number, len(records)) if self.staged else state.history
        return records

    @property
    def seconds(self) -> float:
        """The time of the steps of all stages."""
        return sum(state.seconds for _, state in self.runs)

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``, ready for JSON."""
        state, epochs, history = self.runs[-1][1], self.whole.weights.epochs, self.history
        more = ending_of(state)
        if self.staged:
            switches = [{name: record[name] for name in _SWITCH} for record in history if "switched_from" in record]
            more, epochs = {"stages": len(self.runs), "switched": switches or None}, len(self.runs) * epochs
        return summary_of(self.whole.identity, history, state.genotype, epochs, self.seconds, more)

    def next_experiment(self, home: Path | None = None) -> Experiment:
        """Return the experiment of the stage that follows; ``home`` is where the search was begun before."""
        if not self.staged:
            return self.whole
        number, space, probabilities = len(self.runs) + 1, self.whole.parts.space, None
        if self.runs:
            last, state = self.runs[-1]
            space, probabilities = last.space, last.present_probabilities(state)
        parts = stage_parts(
            self.whole.parts, number, _space_of_stage(self.whole.parts, number, space, probabilities)
        )  # fmt: skip
        return Experiment.of(parts, self.whole.data, None if home is None else stage_folder(home, number))

    def save(self, folder: Path | str, again: bool = False) -> Path:
        """Write a run directory from the states in memory; ``again`` replaces an earlier state of the same search."""
        path = as_path("folder", folder)
        home = RunFolder(path, self.whole.identity, {"config.toml": self.whole.describe()})
        with home.opened(again and home.is_begun()):
            for number, (experiment, state) in enumerate(self.runs, 1):
                fallback = self.fallback if number == len(self.runs) else {}
                if not self.staged:
                    _write(home, state, fallback)
                    return path
                own = StageFolder(home, experiment.identity, number, self.count)
                with own.opened(own.is_begun()):
                    _write(own, state, fallback)
            home.show(self.history, self.runs[-1][1].genotype)
            if self.complete:
                home.conclude(self.summary)
        return path


_SWITCH = ("stage", "switched_from")
"""What a summary says of a stage that switched its method: which it was, and in which of its epochs."""


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
    found = SearchedStages(Experiment.of(resolve(config, callbacks), config.load_data(), home))
    folder = stage_folder(home, 1) if found.staged else home
    while not found.runs or (len(found.runs) < found.count and Checkpoints(folder).exist()):
        experiment, last = found.next_experiment(home), folder
        found.runs.append((experiment, restore_run(experiment, last)))
        folder = stage_folder(home, len(found.runs) + 1)
    return replace(found, fallback=Checkpoints(last, "healthy").load_if_any(experiment.identity))


def restore_run(experiment: Experiment, folder: Path) -> SearchState:
    """Return the last saved state of a run."""
    saved = Checkpoints(folder).load(experiment.identity)
    with own_global_state(experiment.device):
        state = experiment.initial_state()
    state.restore(saved)
    return state
