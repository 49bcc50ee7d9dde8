"""A search that you can step through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from archgrad.autodiff.tensors import Alpha
from archgrad.callbacks import Callback, Record, StageStart
from archgrad.callbacks.progress import Display
from archgrad.config import SearchConfig
from archgrad.data import as_data
from archgrad.distributed.processes import check_same, joined, processes
from archgrad.errors import ProcessLostError, UserError, shortened, unknown
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import RunFolder, StageOf, stage_folder
from archgrad.loop.global_state import (
    Interrupt,
    catch_signals,
    own_global_state,
    own_threads,
    seed_globally,
    take_turns,
)
from archgrad.loop.prepare import checked_files, checked_folder, prepare
from archgrad.loop.result import SearchResult, mixture_of, result_of
from archgrad.loop.run import Run, lost
from archgrad.loop.saved_run import config_of_run, reopen, save_stages
from archgrad.loop.saved_state import compare_machines
from archgrad.loop.stages import (
    OverallRecords,
    SearchedStages,
    check_stages,
    first_space,
    next_space,
    number_of_stages,
    stage_of,
    with_stage,
)
from archgrad.loop.state import SearchState
from archgrad.method.bundle import Method
from archgrad.parts.fields import check_value
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system import random_streams
from archgrad.system.files import as_path
from archgrad.system.run_kind import RunKind
from archgrad.system.warn_once import forget_warnings
from archgrad.tasks import BaseTask

__all__ = ["Search"]

_NO_OPTIONS = ("space", "method", "data", "needs")
"""The fields of a configuration that are no options of a search: its arguments, and what only a run directory has."""


class Search:
    """A search that you can step through; its arguments are those of :func:`archgrad.search`.

    >>> run = Search("nasbench201", "gaea", "digits", epochs=2, channels=4, cells=1, limit=200)
    >>> record = run.step()  # None, or the record of the epoch that the step ended
    >>> run.epoch()["epoch"]
    1
    >>> [record["epoch"] for record in run], run.complete
    ([2], True)

    It finds the same bits as :func:`archgrad.search`. An error ends it, and with ``out`` its run directory continues
    from the last checkpoint.
    """

    _closed = False

    def __init__(
        self,
        space: SearchSpace | str = "nasbench201",
        method: Method | str = "gaea-simultaneous",
        data: Any = "digits",
        *,
        out: Path | str | None = None,
        resume: bool = False,
        files: Mapping[str, str] | None = None,
        interruptible: bool = False,
        callbacks: Sequence[Callback] = (),
        standard_callbacks: bool = True,
        progress: bool | None = None,
        **options: Any,
    ) -> None:
        known = [one.name for one in fields(SearchConfig) if one.name not in _NO_OPTIONS]
        for name in options:
            if name not in known:
                raise unknown("option of search:", name, known)
        folder = checked_folder(out, resume, interruptible)
        check_value("standard_callbacks", standard_callbacks, bool)
        check_value("progress", progress, bool | None)
        if not isinstance(callbacks, Sequence):
            raise UserError(f"callbacks is {shortened(callbacks)}; it must be a list of callbacks.")
        files = checked_files({} if files is None else files)
        self._contexts, self._stage, display = ExitStack(), ExitStack(), Display(progress)
        self._contexts.callback(display.close)
        with self._closed_by_errors():
            with take_turns():  # also while data is scanned, which seeds the global generators
                config = SearchConfig(space=space, method=method, data=as_data(data), **options)
                self._contexts.enter_context(joined(config.device))
                begun = folder if resume else None
                watching = (*callbacks, *display.callbacks)
                whole = prepare(config, watching, standard_callbacks=standard_callbacks, begun=begun, tell=display.tell)
            self._begin(whole, folder, resume, files, interruptible)

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        *,
        out: Path | str | None = None,
        resume: bool = False,
        files: Mapping[str, str] | None = None,
        interruptible: bool = False,
        kind: RunKind = "search",
    ) -> Search:
        """Return the search of an experiment at its beginning, or at the checkpoint in ``out``."""
        search = cls.__new__(cls)
        search._contexts, search._stage = ExitStack(), ExitStack()
        with search._closed_by_errors():
            search._begin(experiment, checked_folder(out, resume, interruptible), resume, files, interruptible, kind)
        return search

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        space: SearchSpace | None = None,
        method: Method | None = None,
        data: Any = None,
        task: BaseTask | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Search:
        """Return the search that :meth:`save`, or a search with ``out``, left in a folder, and change nothing there.

        Objects that the folder could not name must be given again. :func:`archgrad.resume` continues in the folder.
        """
        search = cls.__new__(cls)
        search._contexts, search._stage = ExitStack(), ExitStack()
        with search._closed_by_errors():
            given = {"space": space, "method": method, "data": data, "task": task}
            config = config_of_run(as_path("folder", folder), given)
            search._contexts.enter_context(joined(config.device))
            with take_turns():
                found = reopen(config, as_path("folder", folder), callbacks)
            search._begin(found.whole, found=found)
        return search

    def __repr__(self) -> str:
        stage = f"stage {self._number}, " if self._overall is not None else ""
        return (
            f"<Search {stage}{self.state.epoch} of {self.state.epochs} epochs, step {self.state.step}: {self.genotype}>"
        )

    # --- what it has found so far

    @property
    def alpha(self) -> Alpha:
        """The architecture parameters ``{block: [rows, choices]}``."""
        return self.state.alpha

    @property
    def mixture(self) -> dict[str, Tensor]:
        """The input of the supernet, ``{block: [cells, rows, choices]}``."""
        return mixture_of(self._run.experiment, self.state)

    @property
    def genotype(self) -> Genotype:
        """The architecture of the last epoch; before the first, that of the initial α."""
        return self.state.genotype

    @property
    def history(self) -> list[Record]:
        """One record for each epoch, of all stages."""
        return list(self.state.history) if self._overall is None else self._overall.so_far(self.state.history)

    @property
    def state(self) -> SearchState:
        """Weights, α, both optimizers, and the position in the search, or in its present stage."""
        return self._run.state

    @property
    def experiment(self) -> Experiment:
        """The parts, the data and the settings of the whole search."""
        return self._whole

    @property
    def complete(self) -> bool:
        """Whether no step is left."""
        return self.state.complete and self._number == number_of_stages(self._whole.parts)

    # --- how it goes on

    def step(self) -> Record | None:
        """Take one step of the weights and, if it is due, of the architecture; return a record if it ends an epoch."""
        with self._running():
            return self._step()

    def epoch(self) -> Record:
        """Finish the present epoch, and return its record."""
        with self._running():
            while (record := self._step()) is None:
                pass
            return record

    def __iter__(self) -> Iterator[Record]:
        """Go to the end, and yield the record of every epoch that is left."""
        while not self.complete:
            yield self.epoch()

    def result(self) -> SearchResult:
        """Take all steps that are left, and return the result."""
        if not self.complete:
            with self._running():
                while not self.complete:
                    self._step()
        return result_of(self._stages())

    def save(self, folder: Path | str) -> Path:
        """Write a run directory, at any step; a folder with an earlier state of this search is brought up to date."""
        return save_stages(self._stages(), folder, again=True)

    def close(self) -> None:
        """End the processes that read data, and let others use the run directory; a complete search is closed."""
        self._closed = True
        self._stage.close()
        self._contexts.close()

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside

    def _begin(
        self,
        whole: Experiment,
        out: Path | None = None,
        resume: bool = False,
        files: Mapping[str, str] | None = None,
        interruptible: bool = False,
        kind: RunKind = "search",
        found: SearchedStages | None = None,
    ) -> None:
        """Go to the beginning, to the last checkpoint in ``out``, or to the states ``found`` in another folder."""
        self._whole, self._interrupt, self._ended = whole, Interrupt(), False
        self._finished = () if found is None else found.runs[:-1]
        self._number = len(self._finished) + 1
        texts = {} if resume else {"config.toml": whole.describe()} if out is not None else {}
        texts |= {"oracle.txt": f"{whole.tables}\n"} if whole.tables else {}
        texts |= files or {}
        self._folder = None if out is None else RunFolder(out, whole.identity, texts, run_kind=kind)
        self._overall = None if whole.parts.method.progressive is None else OverallRecords(self._folder)
        self._contexts.enter_context(catch_signals(interruptible, self._interrupt))
        with self._running():
            check_stages(whole)
            if self._overall is not None and self._folder is not None:
                self._contexts.enter_context(self._folder.opened(resume))
            if found is None:
                self._open_stage(first_space(whole.parts), resume)
            else:
                self._continue_from(found)
            self._go_to_next_stage()

    def _continue_from(self, found: SearchedStages) -> None:
        """Continue the last of these stages in memory."""
        experiment, state = found.runs[-1]
        if self._overall is not None:
            for number, (_, earlier) in enumerate(self._finished, 1):
                self._overall.records = with_stage(self._overall.records, number, earlier.history)
        self._start(experiment, state, None, experiment.parts.callbacks, found.fallback)

    def _open_stage(self, space: SearchSpace, resume: bool = False) -> None:
        """Begin the present stage, or continue it from the checkpoint in its folder."""
        folder, home, watching = self._folder, None, self._whole.parts.callbacks
        if self._overall is not None and folder is not None:
            home = stage_folder(folder.path, self._number)
        experiment = stage_of(self._whole, self._number, space, home)
        if self._overall is not None and folder is not None:
            place = StageOf(folder.path, self._number, number_of_stages(self._whole.parts))
            folder = folder.stage(experiment.identity, place)
            resume, watching = folder.is_begun(), () if folder.is_finished() else watching
        seed_globally(random_streams.seed_of(experiment.seed, "global"), experiment.device)
        state = experiment.initial_state()  # before the folder is opened: if this raises, no folder is left behind
        if folder is not None:
            state.folder = folder.path
            saved = self._stage.enter_context(folder.opened(resume))
            if saved is not None:
                state.restore(saved)
                compare_machines(saved)
        self._start(experiment, state, folder, watching, {})

    def _start(
        self,
        experiment: Experiment,
        state: SearchState,
        folder: RunFolder | None,
        callbacks: Sequence[Callback],
        kept: dict[str, Any],
    ) -> None:
        """Tell the callbacks that the present stage begins, or continues."""
        forget_warnings()
        self._stage.enter_context(experiment.reading())
        watching = [one for one in callbacks if processes().rank == 0 or not one.only_writes]
        if self._overall is not None:
            watching.insert(0, self._overall)
            for callback in watching:
                callback.on_stage_start(StageStart(self._number, number_of_stages(self._whole.parts), experiment.space))
        if folder is not None:
            watching.insert(0, folder)
        check_same("other settings or data", lambda: experiment.identity.digest)
        self._run = Run(experiment, state, tuple(watching), folder, self._interrupt, kept)
        self._run.start()

    def _step(self) -> Record | None:
        if self._ended:
            raise UserError("the search is complete, so it has no step left; result() returns what it found.")
        if self._closed:
            raise UserError("the search was closed before its end; load what was saved of it, or start a new one.")
        record = self._run.step()
        if record is not None and self._overall is not None:
            *_, record = self._overall.so_far([record])
        self._go_to_next_stage()
        return record

    def _go_to_next_stage(self) -> None:
        """End a complete stage, and begin the next one; after the last, the search is complete."""
        while self.state.complete and not self._ended:
            self._run.end()
            self._stage.close()
            if self.complete:
                self._ended = True
                if self._overall is not None and self._folder is not None:
                    self._folder.show(self.history, self.genotype)
                    self._folder.conclude(self._stages().summary)
                self.close()
                return
            experiment, state, number = self._run.experiment, self.state, self._number
            if self._overall is not None:
                self._overall.records = self.history
            self._finished, self._number = (*self._finished, (experiment, state)), number + 1
            kept = experiment.method.relaxation.probabilities(experiment.blocks, state.alpha)
            self._open_stage(next_space(self._whole.parts, experiment.space, kept, number))

    def _stages(self) -> SearchedStages:
        runs = (*self._finished, (self._run.experiment, self.state))
        return SearchedStages(self._whole, runs, {} if self._ended else self._run.fallback())

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Have the global state of the process; an error ends the search."""
        config = self._whole.config
        with self._closed_by_errors(), own_threads(config.threads):
            try:
                with own_global_state(self._whole.device, config.deterministic):
                    yield
            except ProcessLostError as error:
                raise lost(error, self._folder) from error

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise
