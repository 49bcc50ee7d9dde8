"""A search that you can step through, and the functions that run one to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from archgrad.autodiff.tensors import Alpha
from archgrad.callbacks import Callback, Record, StageStart
from archgrad.callbacks.progress import Display
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Data, as_data
from archgrad.distributed.processes import check_same, joined, processes
from archgrad.errors import ProcessLostError, UserError, shortened, unknown
from archgrad.loop.checkpoint import compare_machines
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import RunFolder, StageFolder, checked_folder, numbered_through
from archgrad.loop.global_state import (
    Interrupt,
    catch_signals,
    own_global_state,
    own_threads,
    seed_globally,
    take_turns,
)
from archgrad.loop.prepare import prepare
from archgrad.loop.result import SearchResult, result_of
from archgrad.loop.run import Run, lost
from archgrad.loop.stages import SearchedStages, config_of_run, reopen
from archgrad.loop.state import SearchState
from archgrad.method.bundle import Method
from archgrad.parts.fields import check_value
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system import random_streams
from archgrad.system.files import as_path
from archgrad.system.run_kind import RunKind
from archgrad.system.warn_once import forget_warnings
from archgrad.tasks import BaseTask

__all__ = ["Search", "resume_search", "run_search", "search"]

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

    _contexts: ExitStack
    _stage_contexts: ExitStack
    _folder: RunFolder | None = None
    _closed = _ended = False

    def __new__(cls, *_: Any, **__: Any) -> Search:
        """Return a search without experiment; errors while it is opened must close what is open already."""
        search = super().__new__(cls)
        search._contexts, search._stage_contexts = ExitStack(), ExitStack()
        return search

    def __init__(
        self,
        space: SearchSpace | str = "nasbench201",
        method: Method | str = "gaea-largest",
        data: Any = "digits",
        *,
        out: Path | str | None = None,
        resume: bool = False,
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
        with self._closed_by_errors():
            display = Display(progress)
            self._contexts.callback(display.close)
            with take_turns():  # also while data is scanned, which seeds the global generators
                config = SearchConfig(space=space, method=method, data=as_data(data), **options)
                self._contexts.enter_context(joined(config.device))
                whole = prepare(
                    config, (*callbacks, *display.callbacks), standard_callbacks=standard_callbacks,
                    begun=folder if resume else None, tell=display.tell,
                )  # fmt: skip
            self._begin(SearchedStages(whole), folder, resume, interruptible=interruptible)

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
        search, folder = cls.__new__(cls), checked_folder(out, resume, interruptible)
        with search._closed_by_errors():
            search._begin(SearchedStages(experiment), folder, resume, files, interruptible, kind)
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
        search, home = cls.__new__(cls), as_path("folder", folder)
        config = config_of_run(home, {"space": space, "method": method, "data": data, "task": task})
        with search._closed_by_errors():
            search._contexts.enter_context(joined(config.device))
            with take_turns():
                found = reopen(config, home, callbacks)
            search._begin(found)
        return search

    def __repr__(self) -> str:
        stage = f"stage {len(self._stages.runs)}, " if self._stages.staged else ""
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
        return self._run.experiment.mixture(self.state)

    @property
    def genotype(self) -> Genotype:
        """The architecture of the last epoch; before the first, that of the initial α."""
        return self.state.genotype

    @property
    def history(self) -> list[Record]:
        """One record for each epoch, of all stages."""
        return self._stages.history

    @property
    def state(self) -> SearchState:
        """Weights, α, both optimizers, and the position in the search, or in its present stage."""
        return self._run.state

    @property
    def experiment(self) -> Experiment:
        """The parts, the data and the settings of the whole search."""
        return self._stages.whole

    @property
    def complete(self) -> bool:
        """Whether no step is left."""
        return self._stages.complete

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
        return result_of(self._stages)

    def save(self, folder: Path | str) -> Path:
        """Write a run directory, at any step; a folder with an earlier state of this search is brought up to date."""
        fallback = {} if self._ended else self._run.fallback()
        return replace(self._stages, fallback=fallback).save(folder, again=True)

    def close(self) -> None:
        """End the processes that read data, and let others use the run directory; a complete search is closed."""
        self._closed = True
        self._stage_contexts.close()
        self._contexts.close()

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside

    def _begin(
        self,
        stages: SearchedStages,
        out: Path | None = None,
        resume: bool = False,
        files: Mapping[str, str] | None = None,
        interruptible: bool = False,
        kind: RunKind = "search",
    ) -> None:
        """Go to the beginning, to the last checkpoint in ``out``, or to the last of the stages that are given."""
        self._stages, self._interrupt = replace(stages, fallback={}), Interrupt()
        if out is not None:
            whole = stages.whole
            texts = {} if resume else {"config.toml": whole.describe()}
            texts |= {"oracle.txt": f"{whole.tables}\n"} if whole.tables else {}
            self._folder = RunFolder(out, whole.identity, {**texts, **(files or {})}, kind)
        self._contexts.enter_context(catch_signals(interruptible, self._interrupt))
        with self._running():
            if stages.staged and self._folder is not None:
                self._contexts.enter_context(self._folder.opened(resume))
            if stages.runs:
                self._start(None, stages.whole.parts.callbacks, stages.fallback)
            else:
                self._open_stage(resume)
            self._go_to_next_stage()

    def _open_stage(self, resume: bool = False) -> None:
        """Begin the next stage, or continue it from the checkpoint in its folder."""
        stages, folder, watching = self._stages, self._folder, self._stages.whole.parts.callbacks
        experiment = stages.next_experiment(None if folder is None else folder.path)
        if stages.staged and folder is not None:
            number = len(stages.runs) + 1
            folder = StageFolder(folder, experiment.identity, number, stages.count, stages.history)
            resume, watching = folder.is_begun(), () if folder.is_finished() else watching
        seed_globally(random_streams.seed_of(experiment.seed, "global"), experiment.device)
        state = experiment.initial_state()  # before the folder is opened: if this raises, no folder is left behind
        if folder is not None:
            state.folder = folder.path
            saved = self._stage_contexts.enter_context(folder.opened(resume))
            if saved is not None:
                state.restore(saved)
                compare_machines(saved)
        stages.runs.append((experiment, state))
        self._start(folder, watching)

    def _start(
        self, folder: RunFolder | None, callbacks: Sequence[Callback], fallback: dict[str, Any] | None = None
    ) -> None:
        """Tell the callbacks that the present stage begins, or continues."""
        stages, (experiment, state) = self._stages, self._stages.runs[-1]
        forget_warnings()
        self._stage_contexts.enter_context(experiment.reading())
        watching = [one for one in callbacks if processes().rank == 0 or not one.only_writes]
        for callback in watching if stages.staged else ():
            callback.on_stage_start(StageStart(len(stages.runs), stages.count, experiment.space))
        if folder is not None:
            watching.insert(0, folder)
        check_same("other settings or data", lambda: experiment.identity.digest)
        self._run = Run(experiment, state, tuple(watching), folder, self._interrupt, fallback or {})
        self._run.start()

    def _step(self) -> Record | None:
        if self._ended:
            raise UserError("the search is complete, so it has no step left; result() returns what it found.")
        if self._closed:
            raise UserError("the search was closed before its end; load what was saved of it, or start a new one.")
        record, stages = self._run.step(), self._stages
        if record is not None and stages.staged:
            before = sum(len(state.history) for _, state in stages.runs[:-1])
            (record,) = numbered_through([record], len(stages.runs), before)
        self._go_to_next_stage()
        return record

    def _go_to_next_stage(self) -> None:
        """End a complete stage, and begin the next one; after the last, the search is complete."""
        while self.state.complete and not self._ended:
            self._run.end()
            self._stage_contexts.close()
            if not self.complete:
                self._open_stage()
                continue
            self._ended = True
            if self._stages.staged and self._folder is not None:
                self._folder.show(self.history, self.genotype)
                self._folder.conclude(self._stages.summary)
            self.close()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Have the global state of the process; an error ends the search."""
        config = self.experiment.config
        with self._closed_by_errors(), own_threads(config.threads):
            try:
                with own_global_state(self.experiment.device, config.deterministic):
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


def search(
    space: SearchSpace | str = "nasbench201",
    method: Method | str = "gaea-largest",
    data: Any = "digits",
    **options: Any,
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    Each of the three is an object or a name: ``search("nasbench201", "gaea", "digits", epochs=3)``. A name brings its
    published settings. ``data`` may also be a dataset of PyTorch or Hugging Face, or a pair (inputs, targets) of
    tensors or arrays (:func:`archgrad.data.from_dataset`). All ``options`` are fields of
    :class:`archgrad.SearchConfig`, whose help lists them:

    - the size of the search is ``epochs``, ``channels``, ``cells``, ``batch_size`` and ``weights``. If you give one of
      them, the others are as published; if you give none, all are chosen for ``time_limit`` minutes, by default 5;
    - ``threads`` is by default the fastest number, or OMP_NUM_THREADS of the environment. The last bits depend on it;
    - ``published`` refuses options that would change the search of the paper;
    - ``settings`` are all other knobs, such as ``{"arch_optimizer.lr": 0.01}``.

    ``out`` is the run directory: a description of the search, and a checkpoint after every epoch. ``resume`` continues
    from there to the same bits, as :func:`archgrad.resume` does.
    ``interruptible`` catches SIGINT and SIGTERM and ends the search with a checkpoint. ``callbacks`` watch the search
    beside the standard ones; without ``standard_callbacks`` they do so alone. A callback replaces a standard one of its
    kind. In a terminal or a notebook the search shows its progress; ``progress`` switches that on or off. To step
    through a search, see :class:`archgrad.Search`. A progressive method searches in stages of ``epochs`` epochs each.
    Searches in several threads of a process take turns, so that each finds the same bits as alone.
    """
    return Search(space, method, data, **options).result()


def resume_search(
    home: Path, given: Mapping[str, Any], *, interruptible: bool = False, callbacks: Sequence[Callback] = ()
) -> SearchResult:
    """Continue the search in a run directory; ``given`` has objects that it could not name: :func:`archgrad.resume`."""
    config = config_of_run(home, given)
    with joined(config.device):
        experiment = prepare(config, callbacks, begun=home)
        return Search.of(experiment, out=home, resume=True, interruptible=interruptible).result()


def run_search(
    config: SearchConfig,
    *,
    images: Data | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    files: Mapping[str, str] | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    standard_callbacks: bool = True,
    kind: RunKind = "search",
) -> SearchResult:
    """Run what a configuration describes, as it is: no size is chosen; ``images`` are its data if already loaded."""
    folder = checked_folder(out, resume, interruptible)
    with take_turns(), joined(config.device):
        parts = resolve(config, callbacks, standard_callbacks=standard_callbacks)
        images = config.load_data() if images is None else images
        experiment = Experiment.of(parts, images, folder if resume else None)
        run = Search.of(
            experiment, out=folder, resume=resume, files=files, interruptible=interruptible, kind=kind
        )  # fmt: skip
        return run.result()
