"""The only loop of the project."""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import dataclass, field, replace
from typing import Any

from archgrad.autodiff.tensors import Probabilities
from archgrad.callbacks import Callback, DecisionProgress, Record, Stop
from archgrad.diagnostics import Snapshot
from archgrad.distributed.processes import check_same, from_first, wait_for_all
from archgrad.errors import DivergedError, ProcessLostError, SearchInterrupted, UserError
from archgrad.loop import measuring
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import RunFolder
from archgrad.loop.global_state import Interrupt, seed_globally
from archgrad.loop.loaders import StepBatches
from archgrad.loop.measuring import evaluate_held_out, supernet_evaluation
from archgrad.loop.state import SearchState
from archgrad.loop.step_checks import check_instance, check_state
from archgrad.loop.steps import Stepper, StepResult
from archgrad.loop.trust import compare_products, compare_regularizers
from archgrad.regularizers import DecisionStep
from archgrad.relaxations import DecidedRows
from archgrad.spaces import Genotype
from archgrad.system import random_streams
from archgrad.training.schedule import Moves

__all__ = ["Run", "lost"]

_log = logging.getLogger("archgrad")


@dataclass
class Run:
    """A search without stages, or one stage: what moves its state; the stepper changes if it switches its method.

    The loop calls the ``callbacks`` in their order. The folder, if there is one, is the first of them. ``kept`` is the
    state to go back to; a folder keeps it on disk.
    """

    experiment: Experiment
    state: SearchState
    callbacks: tuple[Callback, ...]
    folder: RunFolder | None
    interrupt: Interrupt
    kept: dict[str, Any] = field(default_factory=dict)
    stepper: Stepper = field(init=False)

    def __post_init__(self) -> None:
        self.stepper = self.experiment.stepper(self.state, self.compile)

    @property
    def compile(self) -> bool:
        """Whether PyTorch compiles the forward pass."""
        return self.experiment.config.compile

    def start(self) -> None:
        """Tell the callbacks that the search begins, or continues."""
        if self.experiment.budget_line:
            _log.info("%s", self.experiment.budget_line)
        for callback in self.callbacks:
            callback.on_search_start(self.state)
        self._between_epochs()

    def step(self) -> Record | None:
        """Take a step, and end the epoch after its last; return the record of the epoch then, else None."""
        state, record = self.state, None
        try:
            if state.step < state.steps:  # false if the discretizer was interrupted after the last step
                self._step()
            if state.step == state.steps:
                record = self._end_epoch()
                for callback in self.callbacks:
                    callback.on_epoch_end(state, dict(record))
                self._between_epochs()
        except DivergedError as error:
            raise _diverged(error, self.folder) from error
        if self.interrupt.agreed() and not state.complete:
            self._end_by_signal()
        return record

    def end(self) -> None:
        """Tell the callbacks that the search is complete."""
        for callback in self.callbacks:
            callback.on_search_end(self.state)
        if self.interrupt.agreed():
            self._end_by_signal()

    def fallback(self) -> dict[str, Any]:
        """Return the state to go back to; empty if there is none."""
        return self.kept if self.folder is None else self.folder.load_fallback()

    def _between_epochs(self) -> None:
        """Save the state, or go back to the saved one and continue with another method, if a callback asks for it."""
        state = self.state
        if state.switched is not None or state.step or state.stopped is not None:
            return
        keeps, goes_on = from_first(self._asked_between_epochs)
        if keeps and self.folder is None:
            self.kept = copy.deepcopy(state.tensors())
        elif keeps and self.folder is not None:
            self.folder.save_fallback(state.tensors())
        if goes_on is not None:
            self._go_back(goes_on)

    def _asked_between_epochs(self) -> tuple[bool, str | None]:
        """Return whether a callback asks to keep the state, and how the search continues if one asks to go back."""
        state = self.state
        keeps = False
        for callback in self.callbacks:
            if callback.keep_state(state):
                keeps = True
            elif (goes_on := callback.go_back(state)) is not None:
                return keeps, goes_on
        return keeps, None

    def _go_back(self, goes_on: str) -> None:
        state = self.state
        came_to, spent = state.epoch, state.seconds
        kept = self.fallback()
        if not kept:
            raise UserError("a callback asks to go back, but none has asked to keep a state before; see keep_state.")
        state.restore(kept)
        state.switched, state.seconds, state.trusted = (came_to, state.epoch), spent, {}
        _log.warning("going back to epoch %d, and continuing from there with %s.", state.epoch, goes_on)
        self.stepper = self.experiment.stepper(state, self.compile)
        for callback in self.callbacks:
            callback.on_go_back(state)

    def _end_by_signal(self) -> None:
        """Save and raise after a signal; signals are caught only where there is a folder."""
        state = self.state
        assert self.folder is not None  # noqa: S101 - for the type checker
        if state.step:  # at the end of an epoch everything is saved already
            check_state(state)
            self._save()
        wait_for_all()  # torchrun ends all processes when one has ended
        raise _interrupted(state, self.folder, self.interrupt.signal)

    def _save(self) -> None:
        for callback in self.callbacks:
            callback.on_save(self.state)

    # --- a step

    def _step(self) -> None:
        """Move the architecture, then the weights, or both at once, as the schedule says."""
        state = self.state
        started = time.perf_counter()
        index = state.index
        # For operations that draw from the global generator, such as a user's dropout: the draws must not depend on
        # callbacks, nor on whether earlier steps were taken in this process.
        seed_globally(random_streams.seed_of(self.experiment.seed, "global", index), state.device)
        batches, moves = self.experiment.step_batches(index), self.experiment.moves(index)
        if state.decided.everywhere(state.alpha):
            moves = moves._replace(architecture=False)
        due = [one for one in self.callbacks if one.overrides("measure_point") and one.due(index, state.steps)]
        self._compare(batches, moves, due)
        measuring.measure_points(due, self.experiment, state, batches)
        self._move(batches, moves)
        state.step += 1
        state.seconds += time.perf_counter() - started
        means = state.sums.lazy_means()
        for callback in self.callbacks:
            callback.on_step_end(state, means)

    def _move(self, batches: StepBatches, moves: Moves) -> None:
        state = self.state
        if moves.together and self.experiment.method.schedule.updates == "simultaneous":
            result = self.stepper.joint_step(state, batches.inner(0))
            state.sums.add(replace(result.metrics, name="arch"))  # one loss moves both
            self._record(result)
            return
        if not moves.architecture or self.stepper.method.hypergradient.order > 1:
            self._measure_gradients_apart(batches)
        of_weights = None
        if moves.architecture:
            result = self.stepper.architecture_step(state, batches)
            self._record(result)
            of_weights = result.weight_gradient
        if moves.weights:
            state.sums.add(self.stepper.weight_step(state, batches.inner(0), of_weights).metrics)

    def _record(self, result: StepResult) -> None:
        """Record the metrics and mixture gradients of a step that moved the architecture."""
        state = self.state
        state.sums.add(result.metrics)
        measuring.measure_gradients(self.callbacks, self.experiment, state, result.mixture_gradients)

    def _measure_gradients_apart(self, batches: StepBatches) -> None:
        """Compute and measure mixture gradients where no step of the architecture gives them on its way."""
        state = self.state
        due = [one for one in self.callbacks if one.overrides("measure_gradients") and state.step % one.every == 0]
        if due and self.experiment.method.arch_optimizer.moves:
            found = self.stepper.mixture_gradients(state, batches)
            measuring.measure_gradients(due, self.experiment, state, found, apart=True)

    def _compare(self, batches: StepBatches, moves: Moves, due: list[Callback]) -> None:
        """Compare differences of gradients with exact derivatives before the first step that uses them."""
        state = self.state
        method, recomputed = self.stepper.method, self.experiment.config.checkpoint_cells
        kinds = [method.hypergradient.difference if moves.architecture else None]
        kinds += [callback.difference for callback in due]
        for kind in [kind for kind in kinds if kind is not None]:
            compare_products(self.stepper, state, batches, kind, recomputed)
        if moves.weights and any(part.freezes_kinks for part in method.regularizers):
            compare_regularizers(self.stepper, state, batches.inner(0), recomputed)
            if self.compile and self.stepper.losses.regularizers(state) != method.regularizers:
                raise UserError(
                    "differences of gradients mislead a regularizer here, and torch.compile cannot take exact "
                    "derivatives in their place; search without compile."
                )

    # --- the end of an epoch

    def _end_epoch(self) -> Record:
        """Derive the genotype, measure, and move the state to the beginning of the next epoch."""
        state = self.state
        check_state(state)
        check_same("other weights or another α", state.digest)
        self._decide()
        snapshot = self._snapshot()
        record = self._own_record(snapshot)
        state.history.append(record)
        snapshot = replace(snapshot, evaluation=supernet_evaluation(self.experiment, state))
        measuring.measure_epoch(self.callbacks, snapshot, state, record)
        state.epoch, state.step, state.sums = state.epoch + 1, 0, state.sums.after_epoch()
        self._stop_early()
        if state.complete:
            measuring.measure_end(self.callbacks, replace(snapshot, genotype=state.genotype, last=True), record)
        return record

    def _decide(self) -> None:
        """Let regularizers decide rows for good."""
        state, blocks = self.state, self.experiment.blocks
        found = self.experiment.probabilities(state.alpha)
        probabilities = Probabilities({name: rows.detach().cpu() for name, rows in found.items()})
        for part in self.stepper.method.regularizers:
            step = DecisionStep(blocks, probabilities, state.decided, state.epoch + 1, state.epochs)
            state.decided = part.decide(step)
            check_instance(part, "decide", state.decided, DecidedRows)

    def _snapshot(self) -> Snapshot:
        """Derive the genotype, and return the snapshot of the architecture for callbacks."""
        state = self.state
        method, space = self.stepper.method, self.experiment.space
        probabilities = self.experiment.present_probabilities(state)
        last = state.epoch + 1 == state.epochs
        state.genotype = self._amended(self._derived(probabilities, last), probabilities, last)
        initial = self.experiment.probabilities(self.experiment.first_alpha())
        ties = method.discretizer.ties(space, probabilities, last)
        if ties.rows and last:
            _log.warning("undecided: %s at the end of the search, so the first in order is taken.", ties)
        undecided = ties.everywhere or (self.experiment.is_unmoved(state.alpha) and not self._by_metric(last))
        parts = probabilities, state.genotype, None, last, initial, undecided, ties.rows, method.relaxation.on_simplex
        return Snapshot(space, *parts)

    def _amended(self, genotype: Genotype, probabilities: Probabilities, last: bool) -> Genotype:
        """Return the architecture that the regularizers take in place of the derived one."""
        for part in self.stepper.method.regularizers:
            derived, genotype = genotype, part.amend(genotype, probabilities)
            check_instance(part, "amend", genotype, Genotype)
            if last and genotype != derived:
                _log.warning("%s takes another architecture than the derived %s.", type(part).__name__, derived)
        return genotype

    def _by_metric(self, last: bool) -> bool:
        """Tell whether the task's metric, not probabilities, chose the genotype of the epoch."""
        discretizer = self.stepper.method.discretizer
        return discretizer.measures and (last or not discretizer.once)

    def _own_record(self, snapshot: Snapshot) -> Record:
        """Return the loop's own record of the epoch, before any callback adds to it."""
        state = self.state
        record: Record = {"epoch": state.epoch + 1, "lr": self.stepper.weights.lr_at(state.epoch)}
        record |= {"level": self.stepper.method.schedule.level} | state.sums.means()
        unseen = self.experiment.held_out_loader
        if unseen is not None:
            record |= evaluate_held_out(self.stepper.losses, state, unseen)
        elif self.experiment.train_chance is not None:
            record["train_chance"] = self.experiment.train_chance
        record |= state.metric.to_record()
        record |= {"ties": snapshot.ties} if snapshot.ties else {}
        record |= {"resting": len(state.resting)} if state.watched else {}
        record |= {"decided": state.decided.count} if state.decided.marks else {}
        record |= {"derived_by": state.metric.name} if self._by_metric(snapshot.last) else {}
        before = sum(earlier["seconds"] for earlier in state.history)
        genotype = None if snapshot.undecided else str(state.genotype)
        return record | {"genotype": genotype, "seconds": round(state.seconds - before, 3)}

    def _derived(self, probabilities: Probabilities, last: bool) -> Genotype:
        """Derive the genotype.

        A discretizer that derives only once does so after the last epoch, and can be interrupted. A resumed search
        starts it again from the checkpoint before, with the same weights and draws.
        """
        state = self.state
        space, discretizer, started = self.experiment.space, self.stepper.method.discretizer, time.perf_counter()
        if not (last and discretizer.once):
            interim = discretizer.interim(space, probabilities, supernet_evaluation(self.experiment, state))
            check_instance(discretizer, "interim", interim, Genotype)
            return interim
        self._save()
        seed_globally(random_streams.seed_of(self.experiment.seed, "derivation"), state.device)

        def report(what: str, done: int, total: int) -> None:
            for callback in self.callbacks:
                callback.on_decision(state, DecisionProgress(what, done, total))

        def between() -> None:
            if self.interrupt.agreed() and self.folder is not None:
                wait_for_all()
                raise _interrupted(state, self.folder, self.interrupt.signal)

        evaluation = supernet_evaluation(self.experiment, state, report, between)
        genotype = discretizer.select(space, probabilities, evaluation)
        check_instance(discretizer, "select", genotype, Genotype)
        state.seconds += time.perf_counter() - started
        return genotype

    def _stop_early(self) -> None:
        """End the search if a callback asks for it, with the reason of the first one."""
        request = from_first(self._stop_request)
        if request is not None:
            self.state.stop(*request)

    def _stop_request(self) -> tuple[int, str] | None:
        state = self.state
        for callback in self.callbacks:
            if (request := callback.stop(state)) is None:
                continue
            check_instance(callback, "stop", request, Stop)
            if not 1 <= request.epoch <= state.epoch:
                raise UserError(
                    f"{type(callback).__name__} asks for the architecture of epoch {request.epoch}, but epochs 1 to "
                    f"{state.epoch} are done; name one of them."
                )
            return request.epoch, request.reason
        return None


def _diverged(error: DivergedError, folder: RunFolder | None) -> DivergedError:
    """Return the error with the place of the last good checkpoint, if there is a folder."""
    if folder is None:
        return error
    return DivergedError(
        f"{error} The last good checkpoint is kept in {folder.checkpoints.current}; `archgrad resume {folder.home}` "
        f"would come to the same point, because it repeats the search with the same settings."
    )


def lost(error: ProcessLostError, folder: RunFolder | None) -> ProcessLostError:
    """Return the error with how to continue, if there is a folder."""
    if folder is None:
        return error
    return ProcessLostError(
        f"{error} `archgrad resume {folder.home}` continues from the last checkpoint, with any number of processes."
    )


def _interrupted(state: SearchState, folder: RunFolder, number: int) -> SearchInterrupted:
    """Return an exception that says where the search stopped and how to continue it."""
    place = f"epoch {state.epoch} of {state.epochs}"
    if state.complete and not folder.part:
        return SearchInterrupted(
            f"stopped after {place}; the search is complete, its result is in {folder.path}.", number
        )
    if state.step:
        place = f"step {state.step} of {state.steps} in epoch {state.epoch + 1} of {state.epochs}"
    place += f" of {folder.part}" if folder.part else ""
    return SearchInterrupted(f"stopped after {place}; continue with `archgrad resume {folder.home}`.", number)
