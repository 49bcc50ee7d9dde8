"""The only loop of the project."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad import diagnostics as measures
from archgrad import notices, randomness
from archgrad.bilevel import Alpha
from archgrad.data import ImageData
from archgrad.diagnostics import Diagnostic, Probe, Snapshot
from archgrad.errors import DivergedError, SearchInterrupted, UserError
from archgrad.hypergradients import Batches
from archgrad.loop.events import EpochFinished, Event, Listener, Record, SearchFinished, SearchStarted, StepFinished
from archgrad.loop.folder import RunFolder
from archgrad.loop.interrupts import Interrupt, interruptible
from archgrad.loop.judging import judge_of
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState, Sums
from archgrad.loop.steps import Drawn, Stepper
from archgrad.method import Method
from archgrad.relaxations import spread
from archgrad.spaces import Genotype, SearchSpace
from archgrad.supernet import Supernet
from archgrad.training import WeightTraining

__all__ = ["SearchResult", "search"]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    ``mixture`` is ``{block: [cells, rows, choices]}`` as the supernet takes it, ``alpha`` the parameters behind it,
    ``history`` one record per epoch.
    """

    genotype: Genotype
    history: tuple[Record, ...]
    mixture: dict[str, Tensor]
    alpha: Alpha
    supernet: Supernet
    seconds: float


def search(
    space: SearchSpace,
    method: Method,
    data: ImageData,
    *,
    epochs: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    training: WeightTraining | None = None,
    split: tuple[float, float] | str | None = None,
    device: torch.device | str = "cpu",
    out: Path | str | None = None,
    files: Mapping[str, str] | None = None,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
    diagnostics: Sequence[Diagnostic | Probe] | None = None,
    compile: bool = False,  # noqa: A002 - the word PyTorch uses
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    The weights are trained by ``training`` (by default the space's published settings with what the method changes of
    them; ``epochs`` and ``batch_size`` override it). A bilevel search trains the weights on one part of the data and α
    on the other, as ``split`` says, by default on halves; a single-level one trains both on all of it. The space is
    built for the channels, classes and image size of the data. ``out`` is the run directory, with a checkpoint after
    every epoch and on SIGINT and SIGTERM, and with ``files``, texts by name; ``resume`` continues from it, to the same
    bits as if nothing had happened. ``listeners`` are called with every event, ``diagnostics`` at the end of every
    epoch, or as often as a probe among them says. ``compile`` runs the supernet through ``torch.compile``.
    """
    if resume and out is None:
        raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
    setup = Setup.of(
        space,
        method,
        data,
        epochs=epochs,
        seed=seed,
        batch_size=batch_size,
        training=training,
        split=split,
        device=device,
    )
    _check_compile(compile, method)
    folder = None if out is None else RunFolder(Path(out), setup.description, files)
    watched = diagnostics if diagnostics is not None else measures.standard(method.hypergradient)
    notices.forget()
    with _own_modes(setup.device):
        _seed_globally(randomness.seed_of(seed, "global"), setup.device)
        state = setup.initial_state()  # before the folder is opened: it may refuse, and then nothing shall be left
        with (
            folder.opened(resume) if folder else nullcontext() as saved,
            interruptible(folder is not None) as interrupt,
        ):
            if saved is not None:
                state.restore(saved)
            told: list[Listener] = [*([folder] if folder else []), *listeners]
            _Run(setup, setup.stepper(state, compile), told, watched, folder, interrupt).go(state)
    blocks = setup.space.searched
    mixture = spread(blocks, method.relaxation.probabilities(blocks, state.alpha))
    history = tuple(state.history)
    return SearchResult(state.genotype, history, mixture, state.alpha, state.supernet, state.seconds)


@dataclass(frozen=True)
class _Run:
    """The loop and what it needs besides the state."""

    setup: Setup
    stepper: Stepper
    listeners: Sequence[Listener]
    diagnostics: Sequence[Diagnostic | Probe]
    folder: RunFolder | None
    interrupt: Interrupt

    def go(self, state: SearchState) -> None:
        """Take all steps that are left."""
        self._tell(SearchStarted(state))
        while state.epoch < state.epochs:
            try:
                self._step(state)
                if state.step == state.steps:
                    self._tell(EpochFinished(state, dict(self._end_epoch(state))))
            except DivergedError as error:
                if self.folder is None:
                    raise
                raise _diverged(error, self.folder) from error
            if self.interrupt.signal and state.epoch < state.epochs:
                self._stop(state)
        self._tell(SearchFinished(state))
        if self.interrupt.signal:
            self._stop(state)

    def _stop(self, state: SearchState) -> None:
        """Answer a signal; it is only caught where there is a folder."""
        assert self.folder is not None  # noqa: S101 - for the type checker
        if state.step:  # at the end of an epoch the checkpoint is written already
            self.stepper.check(state)
            self.folder.save(state)
        raise _interrupted(state, self.folder.path, self.interrupt.signal)

    def _step(self, state: SearchState) -> None:
        """Move what is due: the architecture, then the weights, or both at once."""
        started = time.perf_counter()
        index = state.index
        # For operations that draw from the global generator, such as a user's dropout: whatever listeners draw, and
        # whether or not the steps before were taken in this process.
        _seed_globally(randomness.seed_of(self.stepper.seed, "global", index), state.device)
        batches = Drawn(self.setup.weight_loader, self.setup.arch_loader, index)
        self._probe(state, batches)
        moves = self.setup.moves(index)
        if moves.together and self.setup.method.schedule.updates == "simultaneous":
            self.stepper.joint_step(state, batches.inner(0))
        else:
            if moves.architecture:
                self.stepper.architecture_step(state, batches)
            if moves.weights:
                self.stepper.weight_step(state, batches.inner(0))
        state.step += 1
        state.seconds += time.perf_counter() - started
        self._tell(StepFinished(state, state.epoch, state.step, state.sums.means()))

    def _probe(self, state: SearchState, batches: Drawn) -> None:
        """Measure what is due before this step."""
        for probe in self.diagnostics:
            if isinstance(probe, Probe) and state.index % probe.every == 0:
                with self.stepper.moment(state).at(state.alpha, Batches([batches.inner(0)]), batches.outer()) as point:
                    measured = probe(point)
                state.sums.note({name: _number(value) for name, value in measured.items()})

    def _end_epoch(self, state: SearchState) -> Record:
        """Derive the genotype, measure, and move the state to the beginning of the next epoch."""
        stepper = self.stepper
        stepper.check(state)
        probabilities = stepper.method.relaxation.probabilities(stepper.space.searched, state.alpha)
        judge = judge_of(self.setup, state)
        state.genotype = stepper.method.discretizer.select(stepper.space, probabilities, judge)
        last = state.epoch + 1 == state.epochs
        snapshot = Snapshot(stepper.space, probabilities, state.genotype, judge, last)
        record: Record = {"epoch": state.epoch + 1, "lr": stepper.training.lr_at(state.epoch), **state.sums.means()}
        for diagnostic in (measure for measure in self.diagnostics if not isinstance(measure, Probe)):
            record |= {name: _number(value) for name, value in diagnostic(snapshot).items()}
        before = sum(earlier["seconds"] for earlier in state.history)
        record |= {"genotype": str(state.genotype), "seconds": round(state.seconds - before, 3)}
        state.history.append(record)
        state.epoch, state.step, state.sums = state.epoch + 1, 0, Sums()
        return record

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


def _check_compile(compile_: bool, method: Method) -> None:
    if compile_ and method.hypergradient.inner_batches:
        raise UserError(
            f"{type(method.hypergradient).__name__} differentiates the supernet twice or changes its ReLUs, which "
            f"torch.compile cannot do; search without compile, or with FirstOrder."
        )
    if compile_ and method.relaxation.sparse:
        raise UserError(
            f"{type(method.relaxation).__name__} computes other operations from step to step, so that torch.compile "
            f"would have to compile each time; search without compile, or with a dense relaxation."
        )


def _number(value: Any) -> int | float:
    """Turn what a diagnostic measured, such as a NumPy scalar, into what a checkpoint and JSON can hold."""
    return value if type(value) is int else float(value)


@contextmanager
def _own_modes(device: torch.device) -> Iterator[None]:
    """Record gradients whatever the caller does, and give the caller's random state back afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
        yield


def _seed_globally(seed: int, device: torch.device) -> None:
    """Seed the generators that the search may draw from, and no other device's."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _diverged(error: DivergedError, folder: RunFolder) -> DivergedError:
    return DivergedError(
        f"{error} The last good checkpoint is kept in {folder.checkpoints.current}; `archgrad resume {folder.path}` "
        f"would come to the same point, because it repeats the search with the same settings."
    )


def _interrupted(state: SearchState, path: Path, number: int) -> SearchInterrupted:
    place = f"epoch {state.epoch} of {state.epochs}"
    if state.epoch == state.epochs:
        return SearchInterrupted(f"stopped after {place}; the search is complete, its result is in {path}.", number)
    if state.step:
        place = f"step {state.step} of {state.steps} in epoch {state.epoch + 1} of {state.epochs}"
    return SearchInterrupted(f"stopped after {place}; continue with `archgrad resume {path}`.", number)
