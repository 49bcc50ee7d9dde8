"""What is measured in a search: by callbacks, with any mixture and the present weights, and on held-out images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from archgrad.autodiff.gradients import detached_parameters
from archgrad.autodiff.tensors import Mixture, Probabilities, Weights
from archgrad.callbacks import Callback, Measures, Record
from archgrad.data import Loader
from archgrad.diagnostics import Snapshot
from archgrad.discretizers import SupernetEvaluation, Tuning
from archgrad.errors import UserError, shortened
from archgrad.hypergradients import Batches, EvaluationPoint
from archgrad.loop.experiment import Experiment
from archgrad.loop.loaders import StepBatches
from archgrad.loop.losses import SupernetLosses, forward_of
from archgrad.loop.state import BatchMetrics, MetricSums, SearchState
from archgrad.loop.step_checks import check_instance, check_state
from archgrad.relaxations import DecidedRows, Relaxed
from archgrad.system import random_streams
from archgrad.tasks import align

__all__ = [
    "evaluate_at_state",
    "evaluate_held_out",
    "measure_end",
    "measure_epoch",
    "measure_gradients",
    "measure_points",
    "supernet_evaluation",
]

OWN = {
    "epoch", "lr", "genotype", "stage", "seconds", "stopped_to", "ties", "derived_by", "train_chance", "heldout_chance",
    "heldout_images", "train_loss", "train_accuracy", "arch_loss", "arch_accuracy", "heldout_loss", "heldout_accuracy",
    "level", "metric", "metric_direction", "metric_unit", "metric_best", "resting", "decided",
}  # fmt: skip
"""The keys of a record that only the loop writes, beside those of the task's metrics."""


def measure_points(
    callbacks: Iterable[Callback], experiment: Experiment, state: SearchState, batches: StepBatches
) -> None:
    """Measure the bilevel point for these callbacks."""
    for callback in callbacks:
        with evaluate_at_state(experiment, state, batches) as point:
            measured = callback.measure_point(point)
        state.sums.note(_numbers(callback, "measure_point", measured), callback.decays)


def evaluate_at_state(
    experiment: Experiment, state: SearchState, batches: StepBatches, inner_batches: int = 1
) -> AbstractContextManager[EvaluationPoint]:
    """Open the evaluation point of a search with these batches.

    It has a stepper of its own, never compiled and in 32 bit: a callback may change or differentiate the supernet.
    """
    inner = Batches(map(batches.inner, range(inner_batches)))
    step = experiment.stepper(state).in_full_precision().bilevel_step(state)
    return step.at(state.alpha, inner, batches.outer())


def measure_gradients(
    callbacks: Iterable[Callback],
    experiment: Experiment,
    state: SearchState,
    gradients: Mapping[str, Tensor],
    apart: bool = False,
) -> None:
    """Pass the mixture gradients of the cells to the callbacks that need them.

    Decays are those of one step. Gradients that are measured ``apart`` stand for ``every`` steps, or those of an epoch.
    """
    for callback in callbacks:
        if callback.overrides("measure_gradients") and gradients:
            measured = callback.measure_gradients(experiment.blocks, gradients)
            steps = min(callback.every, experiment.steps) if apart else 1
            decays = {name: decay**steps for name, decay in callback.decays.items()}
            state.sums.note(_numbers(callback, "measure_gradients", measured), decays)


def measure_epoch(callbacks: Sequence[Callback], snapshot: Snapshot, state: SearchState, record: Record) -> None:
    """Let all callbacks add to the record of an epoch."""
    for callback in callbacks:
        record |= _values(callback, "measure_epoch", callback.measure_epoch(snapshot, state))


def measure_end(callbacks: Sequence[Callback], snapshot: Snapshot, record: Record) -> None:
    """Let all callbacks add their final measures to the last record."""
    for callback in callbacks:
        record |= _values(callback, "measure_end", callback.measure_end(snapshot))


def _values(callback: Callback, method: str, measured: Measures) -> dict[str, int | float | str]:
    """Return plain values; reject other objects, and names that belong to the loop."""
    check_instance(callback, method, measured, Mapping)
    for name, value in measured.items():
        plain = isinstance(value, str) or (hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0)
        if not isinstance(name, str) or not plain:
            raise UserError(
                f"{type(callback).__name__}.{method} records {shortened(name)} as {shortened(value)}; it must return "
                f"numbers or texts by name."
            )
        if name in OWN:
            raise UserError(
                f"{type(callback).__name__} records {name!r}, but the search itself records that; choose another name."
            )
    return {name: value if isinstance(value, str) else _number(value) for name, value in measured.items()}


def _numbers(callback: Callback, method: str, measured: Measures) -> dict[str, float]:
    """Return plain numbers, which can be averaged over an epoch."""
    found = _values(callback, method, measured)
    for name, value in found.items():
        if isinstance(value, str):
            raise UserError(
                f"{type(callback).__name__} records {name!r} as {value!r} inside an epoch, where only numbers can be "
                f"averaged; return words from measure_epoch."
            )
    return {name: value for name, value in found.items() if not isinstance(value, str)}


def _number(value: float) -> int | float:
    """Convert a measure, such as a NumPy scalar, to a plain number for checkpoints and JSON."""
    return value if type(value) is int else float(value)


Report = Callable[[str, int, int], None]


def supernet_evaluation(
    experiment: Experiment,
    state: SearchState,
    report: Report = lambda what, done, total: None,
    between: Callable[[], None] = lambda: None,
) -> SupernetEvaluation:
    """Return an evaluation of mixtures with the present weights, on the images of the evaluation loader.

    It measures the task's main metric. Its ``tune`` continues a copy of the search, and evaluates that copy from then
    on. The search itself does not change. ``between`` is called before every batch and may raise to end the evaluation.
    """
    seed = random_streams.seed_of(experiment.seed, "judge")
    copies: list[SearchState] = []
    main = experiment.task.main_metric

    def measure(mixture: Mixture, number: int) -> float:
        between()
        supernet = (copies or [state])[0].supernet
        batch, relaxed = experiment.evaluation_loader.batch(number), _relaxed(mixture, state.device)
        with torch.no_grad():
            forward = forward_of(supernet, local_batch_norm=experiment.local_batch_norm)
            outputs = forward({}, batch, relaxed.mixture, active=relaxed.active, seed=seed)
            return main.of_batch(align(outputs, batch.targets), batch.targets)

    def tune(tuning: Tuning) -> Probabilities:
        if not copies:
            copies.append(_copied(experiment, state))
        return _tune(experiment, copies[0], tuning, between)

    draws = random_streams.generator(experiment.seed, "judge", "draws", state.epoch)
    return SupernetEvaluation(measure, draws, experiment.evaluation_loader.steps, tune, report, main.info)


def _relaxed(mixture: Mixture, device: torch.device) -> Relaxed:
    """Return the mixture with only the choices active that have a weight."""
    weights = Mixture({name: value.to(device) for name, value in mixture.items()})
    return Relaxed(weights, {name: value != 0 for name, value in weights.items()})


def _copied(experiment: Experiment, state: SearchState) -> SearchState:
    """Copy the state at the end of the last epoch, with a new optimizer of the weights."""
    supernet = deepcopy(state.supernet)
    optimizer = experiment.weights.make_optimizer(supernet.parameters())
    return replace(
        state, supernet=supernet, optimizer=optimizer, epoch=state.epochs - 1, step=state.steps, sums=MetricSums(),
        trusted=dict(state.trusted), average=None,
    )  # fmt: skip


def _tune(experiment: Experiment, copy: SearchState, tuning: Tuning, between: Callable[[], None]) -> Probabilities:
    """Continue the steps of a search on the batches that follow, without regularizers."""
    optimizer, stepper = experiment.method.arch_optimizer, experiment.stepper(copy).tuning(tuning)
    copy.decided = copy.decided.joined(DecidedRows(tuning.weights, tuning.decided))
    free = not copy.decided.everywhere(copy.alpha)
    for _ in range(tuning.epochs * copy.steps):
        between()
        batches = experiment.step_batches(copy.index)
        if free and not optimizer.finite and experiment.moves(copy.index).architecture:
            stepper.architecture_step(copy, batches)
        stepper.weight_step(copy, batches.inner(0))
        copy.step += 1
    check_state(copy)
    return experiment.present_probabilities(copy)


def evaluate_held_out(losses: SupernetLosses, state: SearchState, loader: Loader) -> dict[str, float]:
    """Measure the loss and the task's metrics on held-out images, without augmentation.

    The weights are the averaged ones, where an average is kept. The network is that of the architecture step. Where
    the relaxation samples, each batch has its own mixture. Metrics are those of the whole set; the loss is the mean
    over its batches. ``heldout_chance`` is the main metric of the best constant prediction.
    """
    task, sums, meters, targets = losses.task, MetricSums(), losses.task.meters, []
    own = state.weights if state.average is None else state.average.tensors
    weights = detached_parameters(state.supernet, Weights(own))
    for meter in meters.values():
        meter.reset()
    for number in range(loader.steps):
        batch, stream = loader.batch(number), ("held-out", state.epoch, number)
        with torch.no_grad(), random_streams.SavedRandomState(state.device).replay():
            relaxed = losses.relax(state.alpha, losses.noise(state, *stream), state)
            seed = random_streams.seed_of(losses.seed, "supernet", *stream)
            extra = losses.modifier_arguments(state, "evaluation")
            first = losses.plain(weights, batch, relaxed.mixture, active=relaxed.active, seed=seed, **extra)
            outputs = align(first, batch.targets)
            ratios = task.ratios(outputs, batch.targets, exact=True)
            sums.add(BatchMetrics("heldout", losses.task_loss(outputs, batch.targets), ratios, len(outputs)))
            for meter in meters.values():
                meter.update(outputs, batch.targets)
        targets.append(batch.targets)
    found = sums.means() | {f"heldout_{name}": float(meter.compute()) for name, meter in meters.items()}
    for meter in meters.values():
        meter.reset()
    chance = task.chance(torch.cat(targets))
    found |= {} if chance is None else {"heldout_chance": chance}
    return found | {"heldout_images": sum(map(len, targets))}
