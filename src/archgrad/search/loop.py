"""The only loop of the project."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from archgrad import diagnostics as measures
from archgrad import randomness
from archgrad.bilevel import Alpha
from archgrad.data import HALVES, ImageData, Loader, measure
from archgrad.data import split as split_data
from archgrad.diagnostics import Diagnostic, Snapshot
from archgrad.errors import SearchInterrupted, UserError
from archgrad.method import Method
from archgrad.relaxations import spread
from archgrad.search.events import EpochFinished, Event, Listener, Record, SearchFinished, SearchStarted, StepFinished
from archgrad.search.folder import RunFolder
from archgrad.search.interrupts import Interrupt, interruptible
from archgrad.search.state import SearchState, Sums
from archgrad.search.steps import Stepper
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
    split: tuple[float, float] | None = HALVES,
    device: torch.device | str = "cpu",
    out: Path | str | None = None,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
    diagnostics: Sequence[Diagnostic] | None = None,
    compile: bool = False,  # noqa: A002 - the word PyTorch uses
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    The weights are trained by ``training`` (the space's published settings by default; ``epochs`` and ``batch_size``
    override it) on one part of the data and α on the other, as ``split`` says (None: both on all of it). ``out`` is
    the run directory, with a checkpoint after every epoch and on SIGINT and SIGTERM; ``resume`` continues from it, to
    the same bits as if nothing had happened. ``listeners`` are called with every event, ``diagnostics`` at the end of
    every epoch. ``compile`` runs the supernet through ``torch.compile``.
    """
    method.check(space)
    settings = _settings(space, training, epochs, batch_size)
    parts = split_data(data.labels, split, seed)
    normalisation = measure(data, parts.weights)
    weight_loader, arch_loader = (
        Loader(data, indices, settings.batch_size, normalisation, data.augmentation, seed, stream, device)
        for indices, stream in ((parts.weights, "weights"), (parts.architecture, "architecture"))
    )
    folder = None if out is None else RunFolder(Path(out), _describe(space, method, data, settings, seed, split))
    watched = diagnostics if diagnostics is not None else measures.standard()
    with _own_randomness(seed, device), interruptible(folder is not None) as interrupt:
        state = _initial_state(space, method, data, settings, seed, weight_loader.steps, device)
        if folder is not None and resume:
            state.restore(folder.checkpoints.load(folder.description))
        elif folder is not None:
            folder.claim()
        elif resume:
            raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
        stepper = Stepper.of(space, method, settings, seed, state.supernet, compile)
        run = _Run(stepper, weight_loader, arch_loader, [*([folder] if folder else []), *listeners], watched, interrupt)
        run.go(state, folder)
    mixture = spread(space.blocks, method.relaxation.probabilities(space.blocks, state.alpha))
    history = tuple(state.history)
    return SearchResult(state.genotype, history, mixture, state.alpha, state.supernet, state.seconds)


@dataclass(frozen=True)
class _Run:
    """The loop and what it needs besides the state."""

    stepper: Stepper
    weight_loader: Loader
    arch_loader: Loader
    listeners: Sequence[Listener]
    diagnostics: Sequence[Diagnostic]
    interrupt: Interrupt

    def go(self, state: SearchState, folder: RunFolder | None) -> None:
        """Take all steps that are left."""
        self._tell(SearchStarted(state))
        while state.epoch < state.epochs:
            self._step(state)
            if state.step == state.steps:
                self._tell(EpochFinished(state, self._end_epoch(state)))
            if self.interrupt.signal and folder is not None and state.epoch < state.epochs:
                folder.save(state)
                raise _interrupted(state, folder.path, self.interrupt.signal)
        self._tell(SearchFinished(state))

    def _step(self, state: SearchState) -> None:
        """Take one architecture step and one weight step."""
        started = time.perf_counter()
        index = state.index
        batch = self.weight_loader.batch(index)
        self.stepper.architecture_step(state, lambda: batch, lambda: self.arch_loader.batch(index))
        self.stepper.weight_step(state, batch)
        state.step += 1
        state.seconds += time.perf_counter() - started
        self._tell(StepFinished(state, state.epoch, state.step, state.sums.means()))

    def _end_epoch(self, state: SearchState) -> Record:
        """Derive the genotype, measure, and move the state to the beginning of the next epoch."""
        stepper = self.stepper
        probabilities = stepper.method.relaxation.probabilities(stepper.space.blocks, state.alpha)
        state.genotype = stepper.method.discretizer.select(stepper.space, probabilities)
        snapshot = Snapshot(stepper.space, probabilities, state.genotype)
        record: Record = {"epoch": state.epoch + 1, "lr": stepper.training.lr_at(state.epoch), **state.sums.means()}
        for diagnostic in self.diagnostics:
            record |= diagnostic(snapshot)
        before = sum(earlier["seconds"] for earlier in state.history)
        record |= {"genotype": str(state.genotype), "seconds": round(state.seconds - before, 3)}
        state.history.append(record)
        state.epoch, state.step, state.sums = state.epoch + 1, 0, Sums()
        return record

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


def _settings(
    space: SearchSpace, training: WeightTraining | None, epochs: int | None, batch_size: int | None
) -> WeightTraining:
    settings = training or space.training
    if epochs is not None:
        settings = replace(settings, epochs=epochs)
    return settings if batch_size is None else replace(settings, batch_size=batch_size)


def _initial_state(
    space: SearchSpace,
    method: Method,
    data: ImageData,
    training: WeightTraining,
    seed: int,
    steps: int,
    device: torch.device | str,
) -> SearchState:
    supernet = space.supernet(data.num_classes, data.channels).to(device)
    first = method.relaxation.init(space.blocks, randomness.generator(seed, "alpha"))
    alpha = {name: value.to(device) for name, value in first.items()}
    optimizer = torch.optim.SGD(
        supernet.parameters(),
        lr=training.lr,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        nesterov=training.nesterov,
    )
    genotype = method.discretizer.select(space, method.relaxation.probabilities(space.blocks, alpha))
    return SearchState(supernet, alpha, method.arch_optimizer.init(alpha), optimizer, training.epochs, steps, genotype)


def _describe(
    space: SearchSpace,
    method: Method,
    data: ImageData,
    training: WeightTraining,
    seed: int,
    split: tuple[float, float] | None,
) -> dict[str, str]:
    """Say what makes this search what it is, so that a checkpoint of another one is refused."""
    return {
        "space": repr(space),
        "method": repr(method),
        "training": repr(training),
        "data": f"{data.name}, {len(data)} images, {data.digest()}",
        "split": repr(split),
        "seed": repr(seed),
    }


@contextmanager
def _own_randomness(seed: int, device: torch.device | str) -> Iterator[None]:
    """Seed the global generators for the initial weights, and give the caller's back afterwards."""
    devices = [torch.device(device)] if torch.device(device).type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(randomness.seed_of(seed, "global"))
        yield


def _interrupted(state: SearchState, path: Path, number: int) -> SearchInterrupted:
    place = f"step {state.step} of {state.steps} in epoch {state.epoch + 1} of {state.epochs}"
    return SearchInterrupted(f"stopped after {place}; continue with `archgrad resume {path}`.", number)
