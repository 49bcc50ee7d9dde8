"""The only loop of the project."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad import diagnostics as measures
from archgrad import randomness
from archgrad.bilevel import Alpha
from archgrad.data import HALVES, ImageData, Loader, Split, measure, parse_split
from archgrad.data import split as split_data
from archgrad.diagnostics import Diagnostic, Snapshot
from archgrad.errors import DivergedError, SearchInterrupted, UserError
from archgrad.loop.description import describe
from archgrad.loop.events import EpochFinished, Event, Listener, Record, SearchFinished, SearchStarted, StepFinished
from archgrad.loop.folder import RunFolder
from archgrad.loop.interrupts import Interrupt, interruptible
from archgrad.loop.state import SearchState, Sums
from archgrad.loop.steps import Stepper
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
    split: tuple[float, float] | str | None = HALVES,
    device: torch.device | str = "cpu",
    out: Path | str | None = None,
    files: Mapping[str, str] | None = None,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
    diagnostics: Sequence[Diagnostic] | None = None,
    compile: bool = False,  # noqa: A002 - the word PyTorch uses
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    The weights are trained by ``training`` (the space's published settings by default; ``epochs`` and ``batch_size``
    override it) on one part of the data and α on the other, as ``split`` says (None: both on all of it). The space is
    built for the channels, classes and image size of the data. ``out`` is the run directory, with a checkpoint after
    every epoch and on SIGINT and SIGTERM, and with ``files``, texts by name; ``resume`` continues from it, to the same
    bits as if nothing had happened. ``listeners`` are called with every event, ``diagnostics`` at the end of every
    epoch. ``compile`` runs the supernet through ``torch.compile``.
    """
    if resume and out is None:
        raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise UserError(f"seed is {seed!r}; it must be a whole number.")
    method.check(space)
    space = replace(space, input_channels=data.channels, num_classes=data.num_classes, image_size=data.image_size)
    settings = _settings(space, training, epochs, batch_size)
    split = parse_split(split) if isinstance(split, str) else split
    parts = split_data(data.labels, split, int(seed))
    _check_batch_size(batch_size, parts)
    device = _usable(device)
    normalisation = measure(data, parts.weights)
    weight_loader, arch_loader = (
        Loader(data, indices, settings.batch_size, normalisation, data.augmentation, seed, stream, device)
        for indices, stream in ((parts.weights, "weights"), (parts.architecture, "architecture"))
    )
    folder = None if out is None else RunFolder(Path(out), describe(space, method, data, settings, seed, split), files)
    watched = diagnostics if diagnostics is not None else measures.standard()
    with (
        _own_modes(device),
        folder.opened(resume) if folder else nullcontext() as saved,
        interruptible(folder is not None) as interrupt,
    ):
        _seed_globally(randomness.seed_of(seed, "global"), device)
        state = _initial_state(space, method, settings, seed, weight_loader.steps, device)
        if saved is not None:
            state.restore(saved)
        stepper = Stepper.of(space, method, settings, seed, state.supernet, compile)
        told: list[Listener] = [*([folder] if folder else []), *listeners]
        _Run(stepper, weight_loader, arch_loader, told, watched, folder, interrupt).go(state)
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
        """Take one weight step, after an architecture step if one is due."""
        started = time.perf_counter()
        index = state.index
        # For operations that draw from the global generator, such as a user's dropout: whatever listeners draw, and
        # whether or not the steps before were taken in this process.
        _seed_globally(randomness.seed_of(self.stepper.seed, "global", index), state.device)
        batch = self.weight_loader.batch(index)
        if self.stepper.method.schedule.moves_architecture(index):
            self.stepper.architecture_step(
                state,
                lambda step: self.weight_loader.batch(index + step) if step else batch,
                lambda: self.arch_loader.batch(index),
            )
        self.stepper.weight_step(state, batch)
        state.step += 1
        state.seconds += time.perf_counter() - started
        self._tell(StepFinished(state, state.epoch, state.step, state.sums.means()))

    def _end_epoch(self, state: SearchState) -> Record:
        """Derive the genotype, measure, and move the state to the beginning of the next epoch."""
        stepper = self.stepper
        stepper.check(state)
        probabilities = stepper.method.relaxation.probabilities(stepper.space.blocks, state.alpha)
        state.genotype = stepper.method.discretizer.select(stepper.space, probabilities)
        snapshot = Snapshot(stepper.space, probabilities, state.genotype)
        record: Record = {"epoch": state.epoch + 1, "lr": stepper.training.lr_at(state.epoch), **state.sums.means()}
        for diagnostic in self.diagnostics:
            record |= {name: _number(value) for name, value in diagnostic(snapshot).items()}
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


def _check_batch_size(batch_size: int | None, parts: Split) -> None:
    """Refuse a wish that cannot be met; a space's own batch size is cut to small data silently."""
    for name, part in (("weights", parts.weights), ("architecture", parts.architecture)):
        if batch_size is not None and batch_size > len(part):
            raise UserError(
                f"batch_size is {batch_size}, but only {len(part)} images train the {name}; "
                f"it must be at most {min(len(parts.weights), len(parts.architecture))}, or give more data."
            )


def _usable(device: torch.device | str) -> torch.device:
    """Return a device that computes; refuse one that is unknown or not there."""
    try:
        torch.zeros(1, device=device).item()
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the device {str(device)!r} cannot be used ({reason}); try 'cpu'.") from error


def _initial_state(
    space: SearchSpace,
    method: Method,
    training: WeightTraining,
    seed: int,
    steps: int,
    device: torch.device,
) -> SearchState:
    supernet = space.supernet().to(device)
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
