"""The only loop of the project."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from archgrad import diagnostics as measures
from archgrad import random_streams
from archgrad.alpha_budget import BudgetChoice
from archgrad.data import ImageData
from archgrad.diagnostics import Diagnostic, LayerMeasure, Probe, Snapshot
from archgrad.errors import DivergedError, SearchInterrupted, UserError
from archgrad.hypergradients import Batches
from archgrad.loop.collapse import Doctor, Memory
from archgrad.loop.evaluation import supernet_evaluation
from archgrad.loop.events import (
    DecisionMade,
    EpochFinished,
    Event,
    Listener,
    Record,
    SearchFinished,
    SearchStarted,
    StepFinished,
)
from archgrad.loop.folder import RunFolder
from archgrad.loop.interrupts import Interrupt, interruptible
from archgrad.loop.progressive import in_stages
from archgrad.loop.setup import Setup
from archgrad.loop.state import MetricSums, SearchState, nothing_decided
from archgrad.loop.step_batches import StepBatches
from archgrad.loop.steps import Stepper
from archgrad.loop.trust import compare_products, compare_regularizers
from archgrad.method import Method
from archgrad.relaxations import expand_to_cells
from archgrad.schedule import Moves
from archgrad.spaces import Genotype, SearchSpace
from archgrad.supernet import Supernet
from archgrad.tensors import Alpha, Mixture, MixtureGradients, Probabilities
from archgrad.training import WeightTraining
from archgrad.warn_once import forget_warnings

__all__ = ["SearchResult", "search"]

_log = logging.getLogger("archgrad")


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    ``mixture`` is ``{block: [cells, rows, choices]}`` as the supernet takes it, ``alpha`` the parameters behind it,
    ``history`` one record per epoch. ``stopped`` says why a search ended early, with the genotype of an earlier epoch;
    mixture, α and supernet are those it ended with. ``undecided`` says that all choices tie exactly, so
    that the genotype is the first in the order of choices and nothing more.
    """

    genotype: Genotype
    history: tuple[Record, ...]
    mixture: Mixture
    alpha: Alpha
    supernet: Supernet
    seconds: float
    stopped: str | None = None

    @property
    def undecided(self) -> bool:
        """Whether nothing has chosen the genotype."""
        return nothing_decided(self.history, self.stopped)


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
    held_out: float = 0.1,
    device: torch.device | str = "cpu",
    out: Path | str | None = None,
    files: Mapping[str, str] | None = None,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
    diagnostics: Sequence[Diagnostic | Probe | LayerMeasure] | None = None,
    on_collapse: str = "warn",
    alpha_budget: BudgetChoice = "published",
    compile: bool = False,  # noqa: A002 - the word PyTorch uses
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    The weights are trained by ``training`` (by default the space's published settings with what the method changes of
    them; ``epochs`` and ``batch_size`` override it). A bilevel search trains the weights on one part of the data and α
    on the other, as ``split`` says, by default on halves; a single-level one trains both on all of it but the share
    ``held_out``. Every epoch ends with the loss and accuracy on so many images that did not train the weights, as they
    are: those kept out, or in a bilevel search some of the architecture's own; 0 measures and keeps out nothing. The
    supernet is built for the channels and classes of the data. ``out`` is the run directory, with a checkpoint
    after every epoch and on SIGINT and SIGTERM, and with ``files``, texts by name; ``resume`` continues from it, to the
    same bits as if nothing had happened. ``listeners`` are called with every event, ``diagnostics`` at the end of every
    epoch, or as often as a probe among them says. ``on_collapse`` says what to do when the records show that the search
    collapses into skip connections or ``none``: warn, stop with the last sound architecture, switch to layer alignment
    from there, or ignore it and look for no signs of it; the others measure what shows them, whatever ``diagnostics``
    there are. ``alpha_budget`` says how far α may move: by default as far as in the published search, for which the
    learning rate of α is multiplied by published steps / own steps where there are fewer; "off" keeps the bare rate,
    and a number is a factor for it. ``compile`` runs the supernet through ``torch.compile``. A progressive method
    searches in stages of ``epochs`` epochs each.
    """
    if resume and out is None:
        raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
    prepared = partial(
        Setup.of,
        data=data,
        epochs=epochs,
        seed=seed,
        batch_size=batch_size,
        training=training,
        split=split,
        held_out=held_out,
        device=device,
        on_collapse=on_collapse,
        alpha_budget=alpha_budget,
    )
    _check_compile(compile, method)
    watched = measures.standard(method) if diagnostics is None else measures.with_stop(diagnostics, method)
    watched = watched if on_collapse == "ignore" else measures.with_doctor(watched)
    carried_out = partial(_carried_out, watched=watched, on_collapse=on_collapse, compile_=compile)
    folder = None if out is None else Path(out)
    if method.progressive is not None:
        stages = partial(in_stages, space, method, method.progressive, prepared, carried_out)
        return stages(out=folder, files=files, resume=resume, listeners=listeners)
    setup = prepared(space, method)
    return carried_out(setup, RunFolder(folder, setup.description, files) if folder else None, resume, listeners)


def _carried_out(
    setup: Setup,
    folder: RunFolder | None,
    resume: bool,
    listeners: Sequence[Listener],
    watched: Sequence[Diagnostic | Probe | LayerMeasure],
    on_collapse: str,
    compile_: bool,
) -> SearchResult:
    """Run one search from its beginning, or from where its folder has come to, to its end."""
    forget_warnings()
    with _own_modes(setup.device):
        _seed_globally(random_streams.seed_of(setup.seed, "global"), setup.device)
        state = setup.initial_state()  # before the folder is opened: it may refuse, and then nothing shall be left
        with (
            folder.opened(resume) if folder else nullcontext() as saved,
            interruptible(folder is not None) as interrupt,
        ):
            if saved is not None:
                state.restore(saved)
            told: list[Listener] = [*([folder] if folder else []), *listeners]
            doctor = Doctor(on_collapse, folder or Memory(), setup.method)
            _Run(setup, setup.stepper(state, compile_), told, watched, folder, interrupt, doctor, compile_).go(state)
    blocks = setup.blocks
    mixture = expand_to_cells(blocks, setup.method.relaxation.probabilities(blocks, state.alpha))
    history = tuple(state.history)
    return SearchResult(state.genotype, history, mixture, state.alpha, state.supernet, state.seconds, state.stopped)


@dataclass
class _Run:
    """The loop and what it needs besides the state; the stepper changes if the search switches its method."""

    setup: Setup
    stepper: Stepper
    listeners: Sequence[Listener]
    diagnostics: Sequence[Diagnostic | Probe | LayerMeasure]
    folder: RunFolder | None
    interrupt: Interrupt
    doctor: Doctor
    compile: bool

    def go(self, state: SearchState) -> None:
        """Take all steps that are left."""
        _log.info("%s", self.setup.budget_line)
        self._tell(SearchStarted(state, self.setup.budget_line))
        self._treat(state)
        while not state.complete:
            try:
                if state.step < state.steps:  # a derivation that takes its time may have been interrupted after them
                    self._step(state)
                if state.step == state.steps:
                    self._tell(EpochFinished(state, dict(self._end_epoch(state))))
                    self._treat(state)
            except DivergedError as error:
                if self.folder is None:
                    raise
                raise _diverged(error, self.folder) from error
            if self.interrupt.signal and not state.complete:
                self._stop(state)
        self._tell(SearchFinished(state))
        if self.interrupt.signal:
            self._stop(state)

    def _treat(self, state: SearchState) -> None:
        """Go back and on by another method, if the search collapses and shall switch."""
        if self.doctor.treat(state):
            self.stepper = self.setup.stepper(state, self.compile)
            if self.folder is not None:
                self.folder.go_back(state)

    def _stop(self, state: SearchState) -> None:
        """Answer a signal; it is only caught where there is a folder."""
        assert self.folder is not None  # noqa: S101 - for the type checker
        if state.step:  # at the end of an epoch the checkpoint is written already
            self.stepper.check(state)
            self.folder.save(state)
        raise _interrupted(state, self.folder, self.interrupt.signal)

    def _step(self, state: SearchState) -> None:
        """Move what is due: the architecture, then the weights, or both at once."""
        started = time.perf_counter()
        index = state.index
        # For operations that draw from the global generator, such as a user's dropout: whatever listeners draw, and
        # whether or not the steps before were taken in this process.
        _seed_globally(random_streams.seed_of(self.stepper.seed, "global", index), state.device)
        batches, moves = self.setup.step_batches(index), self.setup.moves(index)
        self._compare(state, batches, moves)
        self._probe(state, batches)
        if moves.together and self.setup.method.schedule.updates == "simultaneous":
            self._measure_layers(state, self.stepper.joint_step(state, batches.inner(0)))
        else:
            if moves.architecture:
                self._measure_layers(state, self.stepper.architecture_step(state, batches))
            else:
                self._measure_layers_at_rest(state, batches)
            if moves.weights:
                self.stepper.weight_step(state, batches.inner(0))
        state.step += 1
        state.seconds += time.perf_counter() - started
        self._tell(StepFinished(state, state.epoch, state.step, state.sums.means()))

    def _compare(self, state: SearchState, batches: StepBatches, moves: Moves) -> None:
        """Compare differences of gradients with exact ones before the first step that takes any."""
        method = self.stepper.method
        kinds = [method.hypergradient.difference if moves.architecture else None]
        kinds += [probe.difference for probe in self._due(state)]
        for kind in [kind for kind in kinds if kind is not None]:
            compare_products(self.stepper, state, batches, kind)
        if moves.weights and any(part.freezes_kinks for part in method.regularizers):
            compare_regularizers(self.stepper, state, batches.inner(0))
            if self.compile and self.stepper.regularizers(state) != method.regularizers:
                raise UserError(
                    "differences of gradients mislead a regulariser here, and torch.compile cannot take exact "
                    "derivatives in their place; search without compile."
                )

    def _due(self, state: SearchState) -> list[Probe]:
        """Return the probes that measure before this step."""
        return [one for one in self.diagnostics if isinstance(one, Probe) and one.due(state.index, state.steps)]

    def _probe(self, state: SearchState, batches: StepBatches) -> None:
        """Measure what is due before this step."""
        for probe in self._due(state):
            # A stepper of its own, which is never compiled: a probe may change how the supernet computes.
            step = self.setup.stepper(state).bilevel_step(state)
            with step.at(state.alpha, Batches([batches.inner(0)]), batches.outer()) as point:
                measured = probe(point)
            state.sums.note({name: _number(value) for name, value in measured.items()})

    def _measure_layers(self, state: SearchState, mixture_gradients: MixtureGradients, at_rest: bool = False) -> None:
        """Measure the gradients of the cells, which have moved the architecture or would have."""
        for measure in self.diagnostics:
            if (
                isinstance(measure, LayerMeasure)
                and mixture_gradients
                and (not at_rest or state.step % measure.every == 0)
            ):
                measured = measure(self.setup.blocks, mixture_gradients)
                state.sums.note({name: _number(value) for name, value in measured.items()})

    def _measure_layers_at_rest(self, state: SearchState, batches: StepBatches) -> None:
        """Measure them where the architecture is yet to move, from gradients computed for that alone."""
        if self.setup.method.arch_optimizer.moves and any(
            isinstance(measure, LayerMeasure) and state.step % measure.every == 0 for measure in self.diagnostics
        ):
            self._measure_layers(state, self.stepper.mixture_gradients(state, batches.outer()), at_rest=True)

    def _end_epoch(self, state: SearchState) -> Record:
        """Derive the genotype, measure, and move the state to the beginning of the next epoch."""
        stepper = self.stepper
        stepper.check(state)
        probabilities = stepper.method.relaxation.probabilities(stepper.blocks, state.alpha)
        last = state.epoch + 1 == state.epochs
        state.genotype = self._derived(state, probabilities, last)
        evaluation = supernet_evaluation(self.setup, state)
        initial = stepper.method.relaxation.probabilities(stepper.blocks, self.setup.first_alpha())
        ties = stepper.method.discretizer.ties(stepper.space, probabilities, last)
        discretizer = stepper.method.discretizer
        by_accuracy = discretizer.measures and (last or not discretizer.once)
        undecided = ties.everywhere or (self.setup.is_unmoved(state.alpha) and not by_accuracy)
        snapshot = Snapshot(stepper.space, probabilities, state.genotype, evaluation, last, initial, undecided)
        record: Record = {"epoch": state.epoch + 1, "lr": stepper.training.lr_at(state.epoch), **state.sums.means()}
        unseen = self.setup.held_out_loader
        record |= {"train_chance": self.setup.train_chance} if unseen is None else stepper.held_out(state, unseen)
        for diagnostic in self.diagnostics:
            if isinstance(diagnostic, Probe | LayerMeasure):
                continue
            record |= {name: _number(value) for name, value in diagnostic(snapshot).items()}
        before = sum(earlier["seconds"] for earlier in state.history)
        record |= {"ties": ties.rows} if ties.rows else {}
        record |= {"derived_by": "accuracy"} if by_accuracy else {}
        genotype = None if undecided else str(state.genotype)
        record |= {"genotype": genotype, "seconds": round(state.seconds - before, 3)}
        state.history.append(record)
        if ties.rows and last:
            _log.warning("undecided: %s at the end of the search, and the first in order is taken.", ties)
        state.epoch, state.step, state.sums = state.epoch + 1, 0, MetricSums()
        self._stop_early(state)
        self.doctor.look(state)
        if state.stopped is not None and measures.discretisation in self.diagnostics:
            ended = replace(snapshot, genotype=state.genotype, last=True)
            record |= {name: _number(value) for name, value in measures.discretisation(ended).items()}
        return record

    def _derived(self, state: SearchState, probabilities: Probabilities, last: bool) -> Genotype:
        """Derive the genotype; what derives once does so in the last epoch, and answers signals meanwhile.

        The checkpoint before it is where a resumed search begins it anew, with the same weights and draws.
        """
        space, discretizer, started = self.stepper.space, self.stepper.method.discretizer, time.perf_counter()
        if not (last and discretizer.once):
            return discretizer.interim(space, probabilities, supernet_evaluation(self.setup, state))
        if self.folder is not None:
            self.folder.save(state)
        _seed_globally(random_streams.seed_of(self.stepper.seed, "derivation"), state.device)

        def report(what: str, done: int, total: int) -> None:
            self._tell(DecisionMade(state, what, done, total))

        def between() -> None:
            if self.interrupt.signal and self.folder is not None:
                raise _interrupted(state, self.folder, self.interrupt.signal)

        genotype = discretizer.select(space, probabilities, supernet_evaluation(self.setup, state, report, between))
        state.seconds += time.perf_counter() - started
        return genotype

    def _stop_early(self, state: SearchState) -> None:
        """End the search if the method's own rule says so."""
        rule = self.stepper.method.stop
        values = [record["alpha_eigenvalue"] for record in state.history] if rule else []
        verdict = rule and rule.verdict(values, self.stepper.method.schedule.warmup_epochs)
        if verdict:
            state.stop(verdict.epoch, verdict.reason)

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


def _check_compile(compile_: bool, method: Method) -> None:
    if compile_ and method.hypergradient.inner_batches:
        raise UserError(
            f"{type(method.hypergradient).__name__} differentiates the supernet twice or changes its ReLUs, which "
            f"torch.compile cannot do; search without compile, or with FirstOrder."
        )
    for regularizer in method.regularizers if compile_ else ():
        if regularizer.differentiates_gradient or regularizer.differentiates_outer_loss:
            raise UserError(
                f"{type(regularizer).__name__} as it is set differentiates the supernet twice, which torch.compile "
                f"cannot do; search without compile, or set difference=interleaved and objective=inner."
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
        f"{error} The last good checkpoint is kept in {folder.checkpoints.current}; `archgrad resume {folder.home}` "
        f"would come to the same point, because it repeats the search with the same settings."
    )


def _interrupted(state: SearchState, folder: RunFolder, number: int) -> SearchInterrupted:
    place = f"epoch {state.epoch} of {state.epochs}"
    if state.complete and folder.part is None:
        return SearchInterrupted(
            f"stopped after {place}; the search is complete, its result is in {folder.path}.", number
        )
    if state.step:
        place = f"step {state.step} of {state.steps} in epoch {state.epoch + 1} of {state.epochs}"
    place += "" if folder.part is None else f" of {folder.part}"
    return SearchInterrupted(f"stopped after {place}; continue with `archgrad resume {folder.home}`.", number)
