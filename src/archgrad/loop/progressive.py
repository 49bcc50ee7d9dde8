"""A search in stages: each an ordinary run of the loop, in what the one before it left of the space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.callbacks import Callback, Record, Search, Stage
from archgrad.discretizers import Argmax
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.folder import RunFolder, StageOf
from archgrad.loop.reopen import reopened
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState
from archgrad.method import Method
from archgrad.progressive import Progressive
from archgrad.spaces import SearchSpace

if TYPE_CHECKING:
    from archgrad.loop.result import SearchResult

__all__ = ["in_stages", "last_stage", "method_of"]

Prepared = Callable[[SearchSpace, Method], Setup]
"""Completes a space and a method with what else a search was given."""

CarriedOut = Callable[[Setup, RunFolder | None, bool, Sequence[Callback]], "SearchResult"]
"""Runs one search: its setup, its folder, whether to resume, and its callbacks."""


def in_stages(
    space: SearchSpace,
    method: Method,
    plan: Progressive,
    prepared: Prepared,
    carried_out: CarriedOut,
    *,
    out: Path | None = None,
    files: Mapping[str, str] | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
) -> SearchResult:
    """Search in the stages of a plan; return what the last one found, with the records of all.

    A stage has weights and α of its own, and its folder ``stage-1`` and so on within ``out``, which itself holds what
    the whole search has: a resume reads the stages that are finished, and continues the one that is not. Records count
    the epochs of all stages, and say in which ``stage`` they were made; ``switched_from`` counts those of its stage.
    """
    whole = prepared(space, method)
    folder = None if out is None else RunFolder(out, whole.identity, files)
    told, stages = _Whole(folder), len(plan.stages)
    seconds = 0.0
    with folder.opened(resume) if folder else nullcontext():
        searched = plan.sized(space, 0)
        for number in range(1, stages + 1):
            setup = prepared(searched, method_of(method, plan, number, searched))
            own = None if folder is None else folder.stage(setup.identity, StageOf(folder.path, number, stages))
            watching = (told,) if own is not None and own.is_finished() else (told, *callbacks)
            for callback in watching:
                callback.on_stage_start(Stage(number, stages, setup.space))
            result = carried_out(setup, own, own is not None and own.is_begun(), watching)
            told.records, seconds = told.so_far(result.history), seconds + result.seconds
            if number < stages:
                found = {name: weights[0] for name, weights in result.mixture.items()}
                searched = plan.narrowed(searched, found, number)
        if folder is not None:
            folder.show(told.records, result.genotype)
            planned, more = stages * whole.weights.epochs, {"stages": stages, "switched": _switches(told.records)}
            folder.conclude(told.records, result.genotype, planned, seconds, more)
    return replace(result, history=tuple(told.records), seconds=seconds)


def _switches(records: Sequence[Record]) -> list[dict[str, Any]] | None:
    """Return which stages have changed their method, and in which of their epochs; None if none has."""
    names = ("stage", "switched_from")
    return [{name: record[name] for name in names} for record in records if "switched_from" in record] or None


def last_stage(
    space: SearchSpace, method: Method, plan: Progressive, prepared: Prepared, home: Path
) -> tuple[int, Setup, SearchState]:
    """Return the last stage that has begun of the search in a folder: its number, its setup and its saved state.

    What it searches is narrowed again by the α that the stages before it ended with.
    """
    number, searched = 1, plan.sized(space, 0)
    while True:
        setup, own = prepared(searched, method_of(method, plan, number, searched)), home / f"stage-{number}"
        if number == len(plan.stages) or not Checkpoints(home / f"stage-{number + 1}").exist():
            return number, setup, reopened(setup, own)
        alpha = Checkpoints(own).load(setup.identity)["alpha"]
        found = setup.method.relaxation.probabilities(setup.blocks, alpha)
        searched, number = plan.narrowed(searched, found, number), number + 1


def method_of(method: Method, plan: Progressive, number: int, space: SearchSpace) -> Method:
    """Return the method of one stage, counted from 1, which searches this space.

    The last one's derivation heeds the limit of skip connections; what derives once is not asked before.
    """
    method, derivation = method.in_stage(number - 1, space), method.discretizer
    if number < len(plan.stages):
        derivation = Argmax() if derivation.once else derivation
    elif plan.max_skips is not None:
        derivation = LimitedSkips(derivation, plan.max_skips)
    return replace(method, discretizer=derivation)


class _Whole(Callback):
    """Keeps in the folder of the whole search what its stages record, one after the other."""

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder = folder
        self.records: list[Record] = []
        self.number = 0

    def on_stage_start(self, stage: Stage) -> None:
        """Note the stage whose records follow."""
        self.number = stage.number

    def on_search_start(self, search: Search) -> None:
        """Begin the folder; show what the stage has done already, unless that is less than is known."""
        if self.folder is not None:
            self.folder.begin()
            if search.history and not search.complete:
                self.folder.show(self.so_far(search.history), search.genotype)

    def on_epoch_end(self, search: Search, record: Record) -> None:
        """Show the record beside those of the stages before."""
        if self.folder is not None:
            self.folder.show(self.so_far(search.history), search.genotype)

    def so_far(self, history: Sequence[Record]) -> list[Record]:
        """Return all records, when the present stage has these."""
        before = len(self.records)
        present = [{"stage": self.number, **record, "epoch": before + record["epoch"]} for record in history]
        return [*self.records, *present]
