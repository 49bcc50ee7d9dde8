"""A search in stages: each is a run of its own, in the part of the space that the one before it kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from archgrad.autodiff.tensors import Probabilities
from archgrad.callbacks import Callback, Record, SearchView, StageStart
from archgrad.config.resolve import ResolvedSearch
from archgrad.discretizers import Argmax
from archgrad.discretizers.limited_skips import LimitedSkips
from archgrad.loop.checks import check_supernet_memory
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import RunFolder, ending_of, summary_of
from archgrad.loop.state import SearchState
from archgrad.spaces import SearchSpace
from archgrad.system import random_streams

__all__ = [
    "OverallRecords",
    "SearchedStages",
    "check_stages",
    "example_stages",
    "first_space",
    "next_space",
    "number_of_stages",
    "stage_of",
    "stage_parts",
    "with_stage",
]


def number_of_stages(parts: ResolvedSearch) -> int:
    """Return the number of stages; a method without stages has one."""
    plan = parts.method.progressive
    return 1 if plan is None else len(plan.stages)


def first_space(parts: ResolvedSearch) -> SearchSpace:
    """Return the space that the first stage searches."""
    plan = parts.method.progressive
    return parts.space if plan is None else plan.sized(parts.space, 0)


def next_space(parts: ResolvedSearch, space: SearchSpace, probabilities: Probabilities, number: int) -> SearchSpace:
    """Return the space of the next stage, given the space and the probabilities of stage ``number``."""
    plan = parts.method.progressive
    return space if plan is None else plan.narrowed(space, probabilities, number)


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


def stage_of(whole: Experiment, number: int, space: SearchSpace, begun: Path | None = None) -> Experiment:
    """Return the experiment of one stage, counted from 1; ``begun`` is its folder."""
    if whole.parts.method.progressive is None:
        return whole
    return Experiment.of(stage_parts(whole.parts, number, space), whole.data, begun)


def example_stages(parts: ResolvedSearch) -> Iterator[ResolvedSearch]:
    """Yield the parts of each stage with choices dropped at random, to estimate costs."""
    searched, generator = first_space(parts), random_streams.generator(0, "estimate")
    for number in range(1, number_of_stages(parts) + 1):
        yield stage_parts(parts, number, searched)
        if number < number_of_stages(parts):
            drawn = {block.name: torch.rand(block.shape, generator=generator) for block in searched.blocks}
            searched = next_space(parts, searched, Probabilities(drawn), number)


def check_stages(whole: Experiment) -> None:
    """Reject, before the first stage, a later one whose supernet does not fit into memory."""
    plan, loader = whole.parts.method.progressive, whole.weight_loader
    for number in range(0 if plan is None else len(plan.stages)):
        sized = whole.space if plan is None else plan.sized(whole.space, number)
        check_supernet_memory(
            sized, whole.method.in_stage(number, sized), whole.data, whole.outputs, loader.batch_size, whole.device,
            whole.config.checkpoint_cells,
        )  # fmt: skip


class OverallRecords(Callback):
    """Writes the records of all stages to the folder of the whole search."""

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder = folder
        self.records: list[Record] = []
        self.number = 0

    def on_stage_start(self, stage: StageStart) -> None:
        """Note the stage whose records follow."""
        self.number = stage.number

    def on_search_start(self, search: SearchView) -> None:
        """Begin the folder; write the records that an unfinished stage already has."""
        if self.folder is not None:
            self.folder.begin()
            if search.history and not search.complete:
                self.folder.show(self.so_far(search.history), search.genotype)

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
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


def _switches(records: Sequence[Record]) -> list[dict[str, Any]] | None:
    """Return the stages that switched their method, and in which of their epochs; None if none did."""
    names = ("stage", "switched_from")
    return [{name: record[name] for name in names} for record in records if "switched_from" in record] or None


@dataclass(frozen=True, eq=False)
class SearchedStages:
    """The experiment and the last state of every stage of a search that has begun; most searches have one.

    ``whole`` is the experiment of the whole search, and ``fallback`` the state that its last stage may go back to.
    """

    whole: Experiment
    runs: tuple[tuple[Experiment, SearchState], ...]
    fallback: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether no step of any stage is left."""
        return len(self.runs) == number_of_stages(self.whole.parts) and self.runs[-1][1].complete

    @property
    def history(self) -> list[Record]:
        """The records of all stages."""
        if self.whole.parts.method.progressive is None:
            return list(self.runs[0][1].history)
        records: list[Record] = []
        for number, (_, state) in enumerate(self.runs, 1):
            records = with_stage(records, number, state.history)
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
        if self.whole.parts.method.progressive is not None:
            count = len(self.runs)
            more, epochs = {"stages": count, "switched": _switches(history)}, count * epochs
        return summary_of(self.whole.identity, history, state.genotype, epochs, self.seconds, more)
