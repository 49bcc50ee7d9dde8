"""Callbacks that pass on what they are told as events, for tests which look at several kinds in one function."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archgrad.callbacks import Callback, DecisionProgress, Measures, Record, StageStart
from archgrad.diagnostics import Snapshot

__all__ = [
    "DecisionMade",
    "EpochFinished",
    "Event",
    "SearchFinished",
    "SearchStarted",
    "StageStarted",
    "StepFinished",
    "Trace",
    "listening",
    "measuring",
    "on",
]


class StageStarted(NamedTuple):
    number: int
    stages: int
    space: Any


class SearchStarted(NamedTuple):
    state: Any


class StepFinished(NamedTuple):
    state: Any
    epoch: int
    step: int
    means: Mapping[str, float]


class DecisionMade(NamedTuple):
    state: Any
    what: str
    done: int
    total: int


class EpochFinished(NamedTuple):
    state: Any
    record: Record


class SearchFinished(NamedTuple):
    state: Any


Event = StageStarted | SearchStarted | StepFinished | DecisionMade | EpochFinished | SearchFinished


class Listening(Callback):
    def __init__(self, listen: Callable[[Any], object]) -> None:
        self.listen = listen

    def on_stage_start(self, stage: StageStart) -> None:
        self.listen(StageStarted(stage.number, stage.stages, stage.space))

    def on_search_start(self, search: Any) -> None:
        self.listen(SearchStarted(search))

    def on_step_end(self, search: Any, means: Mapping[str, float]) -> None:
        self.listen(StepFinished(search, search.epoch, search.step, means))

    def on_decision(self, search: Any, decision: DecisionProgress) -> None:
        self.listen(DecisionMade(search, decision.what, decision.done, decision.total))

    def on_epoch_end(self, search: Any, record: Record) -> None:
        self.listen(EpochFinished(search, record))

    def on_search_end(self, search: Any) -> None:
        self.listen(SearchFinished(search))


def listening(*functions: Callable[[Any], object]) -> list[Callback]:
    """Return a callback for each function, which is called with every event."""
    return [Listening(function) for function in functions]


def on(kind: Any, function: Callable[[Any], object]) -> list[Callback]:
    """Return a callback that calls a function with every event of a kind."""
    return listening(lambda event: function(event) if isinstance(event, kind) else None)


@dataclass
class Trace:
    """Copies of the network and α before the first step and after every step."""

    networks: list[Any] = field(default_factory=list)
    alphas: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if isinstance(event, SearchStarted | StepFinished):
            self.networks.append(copy.deepcopy(event.state.supernet))
            self.alphas.append({name: value.clone() for name, value in event.state.alpha.items()})


class Measuring(Callback):
    def __init__(self, measure: Callable[[Snapshot], Measures]) -> None:
        self.measure = measure

    def measure_epoch(self, snapshot: Snapshot, search: Any) -> Measures:
        return self.measure(snapshot)


def measuring(*functions: Callable[[Snapshot], Measures]) -> list[Callback]:
    """Return a callback for each function, which measures at the end of every epoch."""
    return [Measuring(function) for function in functions]
