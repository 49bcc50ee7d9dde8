"""A search in stages: each is an ordinary run of the loop, in the part of the space that the last one kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.callbacks import Callback, Record, Search, StageStart
from archgrad.config import SearchConfig
from archgrad.data import Data
from archgrad.discretizers import Argmax
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.folder import RunFolder, StageOf, stage_folder
from archgrad.loop.restore import restore_run
from archgrad.loop.setup import Setup
from archgrad.loop.size_check import check_supernet_memory
from archgrad.loop.state import SearchState
from archgrad.method.bundle import Method
from archgrad.method.progressive import Progressive
from archgrad.spaces import Genotype, SearchSpace

if TYPE_CHECKING:
    from archgrad.loop.result import SearchResult

__all__ = ["Stages", "conclude", "method_of", "with_stage"]

RunOne = Callable[[Setup, RunFolder | None, bool, Sequence[Callback]], "SearchResult"]
"""Runs one search: its setup, its folder, whether to resume, and its callbacks."""


@dataclass(frozen=True, eq=False)
class Stages:
    """A search in the stages of a plan: its configuration, and what that describes.

    A stage has its own weights and α, and its own folder ``stage-1``, ``stage-2``, … within that of the search.
    """

    config: SearchConfig
    space: SearchSpace
    method: Method
    plan: Progressive
    images: Data

    def setup(self, number: int, searched: SearchSpace, begun: Path | None) -> Setup:
        """Return the setup of a stage, counted from 1; ``begun`` is its folder."""
        method = method_of(self.method, self.plan, number, searched)
        return Setup.of(searched, method, self.images, self.config, begun)

    def search(
        self, run_one: RunOne, out: Path | None, files: Mapping[str, str], resume: bool, callbacks: Sequence[Callback]
    ) -> SearchResult:
        """Search all stages; return what the last one found, with the records of all.

        ``out`` holds the records of the whole search. A resume reads the finished stages and continues the unfinished
        one. Records count the epochs of all stages and name their ``stage``; ``switched_from`` counts the epochs of its
        stage.
        """
        whole = Setup.of(self.space, self.method, self.images, self.config, out if resume else None)
        for number in range(len(self.plan.stages)):
            sized, loader = self.plan.sized(self.space, number), whole.weight_loader
            stage = self.method.in_stage(number, sized)
            again = self.config.checkpoint_cells
            check_supernet_memory(sized, stage, loader.data, whole.outputs, loader.batch_size, whole.device, again)
        folder = None if out is None else RunFolder(out, whole.identity, files)
        overall, stages, seconds = _OverallRecords(folder), len(self.plan.stages), 0.0
        runs: list[tuple[Setup, SearchState]] = []
        with folder.opened(resume) if folder else nullcontext():
            searched = self.plan.sized(self.space, 0)
            for number in range(1, stages + 1):
                setup = self.setup(number, searched, None if out is None else stage_folder(out, number))
                own = None if folder is None else folder.stage(setup.identity, StageOf(folder.path, number, stages))
                watching = (overall,) if own is not None and own.is_finished() else (overall, *callbacks)
                for callback in watching:
                    callback.on_stage_start(StageStart(number, stages, setup.space))
                result = run_one(setup, own, own is not None and own.is_begun(), watching)
                overall.records, seconds = overall.so_far(result.history), seconds + result.seconds
                runs += result.stages.runs
                if number < stages:
                    found = {name: weights[0] for name, weights in result.mixture.items()}
                    searched = self.plan.narrowed(searched, found, number)
            if folder is not None:
                conclude(folder, overall.records, result.genotype, whole.weights.epochs, stages, seconds)
        searched_stages = replace(result.stages, whole=whole, runs=tuple(runs))
        return replace(result, history=tuple(overall.records), seconds=seconds, stages=searched_stages)

    def begun(self, home: Path) -> list[tuple[Setup, SearchState]]:
        """Return the setup and the saved state of every stage that has begun in a folder.

        The final α of each narrows the space of the next.
        """
        found: list[tuple[Setup, SearchState]] = []
        searched = self.plan.sized(self.space, 0)
        for number in range(1, len(self.plan.stages) + 1):
            own = stage_folder(home, number)
            if found and not Checkpoints(own).exist():
                break
            if found:
                setup, state = found[-1]
                kept = setup.method.relaxation.probabilities(setup.blocks, state.alpha)
                searched = self.plan.narrowed(searched, kept, number - 1)
            setup = self.setup(number, searched, own)
            found.append((setup, restore_run(setup, own)))
        return found


def conclude(
    folder: RunFolder, records: Sequence[Record], genotype: Genotype, epochs: int, stages: int, seconds: float
) -> None:
    """Write the records and the summary of a finished search in stages of ``epochs`` each."""
    folder.show(records, genotype)
    more = {"stages": stages, "switched": _switches(records)}
    folder.conclude(records, genotype, stages * epochs, seconds, more)


def _switches(records: Sequence[Record]) -> list[dict[str, Any]] | None:
    """Return the stages that switched their method, and in which of their epochs; None if none did."""
    names = ("stage", "switched_from")
    return [{name: record[name] for name in names} for record in records if "switched_from" in record] or None


def method_of(method: Method, plan: Progressive, number: int, space: SearchSpace) -> Method:
    """Return the method of one stage, counted from 1, that searches this space.

    Only the last stage limits skip connections, and only there runs a discretizer that derives once.
    """
    method, derivation = method.in_stage(number - 1, space), method.discretizer
    if number < len(plan.stages):
        derivation = Argmax() if derivation.once else derivation
    elif plan.max_skips is not None:
        derivation = LimitedSkips(derivation, plan.max_skips)
    return replace(method, discretizer=derivation)


class _OverallRecords(Callback):
    """Writes the records of all stages to the folder of the whole search."""

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder = folder
        self.records: list[Record] = []
        self.number = 0

    def on_stage_start(self, stage: StageStart) -> None:
        """Note the stage whose records follow."""
        self.number = stage.number

    def on_search_start(self, search: Search) -> None:
        """Begin the folder; write the records that an unfinished stage already has."""
        if self.folder is not None:
            self.folder.begin()
            if search.history and not search.complete:
                self.folder.show(self.so_far(search.history), search.genotype)

    def on_epoch_end(self, search: Search, record: Record) -> None:
        """Write the record after those of earlier stages."""
        if self.folder is not None:
            self.folder.show(self.so_far(search.history), search.genotype)

    def so_far(self, history: Sequence[Record]) -> list[Record]:
        """Return all records, given those of the present stage."""
        return with_stage(self.records, self.number, history)


def with_stage(records: Sequence[Record], number: int, history: Sequence[Record]) -> list[Record]:
    """Return the records of earlier stages, and then those of stage ``number``, with the epochs counted through."""
    before = len(records)
    return [*records, *({"stage": number, **record, "epoch": before + record["epoch"]} for record in history)]
