"""Computes what callbacks need and records what they measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from archgrad.callbacks import Callback, Measures, Need, Record
from archgrad.diagnostics import Snapshot
from archgrad.errors import UserError, shortened
from archgrad.hypergradients import Batches
from archgrad.loop.experiment import Experiment
from archgrad.loop.loaders import StepBatches
from archgrad.loop.part_checks import check_instance
from archgrad.loop.state import SearchState

__all__ = ["due_at_point", "gradients_due", "measure_end", "measure_epoch", "measure_gradients", "measure_points"]

OWN = {
    "epoch", "lr", "genotype", "stage", "seconds", "stopped_to", "ties", "derived_by", "train_chance", "heldout_chance",
    "heldout_images", "train_loss", "train_accuracy", "arch_loss", "arch_accuracy", "heldout_loss", "heldout_accuracy",
    "level", "metric", "metric_direction", "metric_unit", "metric_best",
}  # fmt: skip
"""The keys of a record that only the loop writes, beside those of the task's metrics."""
_KINDS = ("train", "arch", "heldout")
"""What the names of metrics begin with in a record."""


def due_at_point(callbacks: Iterable[Callback], state: SearchState) -> list[Callback]:
    """Return the callbacks that measure the bilevel point before this step."""
    return [one for one in callbacks if Need.BILEVEL_POINT in one.needs and one.due(state.index, state.steps)]


def measure_points(
    callbacks: Iterable[Callback], experiment: Experiment, state: SearchState, batches: StepBatches
) -> None:
    """Measure the bilevel point for these callbacks."""
    for callback in callbacks:
        # A stepper of its own, never compiled and in 32 bit: a callback may change or differentiate the supernet.
        step = experiment.stepper(state).in_full_precision().bilevel_step(state)
        with step.at(state.alpha, Batches([batches.inner(0)]), batches.outer()) as point:
            measured = callback.measure_point(point)
        state.sums.note(_numbers(callback, "measure_point", measured), callback.decays)


def gradients_due(callbacks: Iterable[Callback], state: SearchState) -> list[Callback]:
    """Return the callbacks that measure mixture gradients at a step where they are computed for that alone."""
    return [one for one in callbacks if Need.MIXTURE_GRADIENTS in one.needs and state.step % one.every == 0]


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
        if Need.MIXTURE_GRADIENTS in callback.needs and gradients:
            measured = callback.measure_gradients(experiment.blocks, gradients)
            steps = min(callback.every, experiment.steps) if apart else 1
            decays = {name: decay**steps for name, decay in callback.decays.items()}
            state.sums.note(_numbers(callback, "measure_gradients", measured), decays)


def measure_epoch(
    callbacks: Sequence[Callback], snapshots: Mapping[bool, Snapshot], state: SearchState, record: Record
) -> None:
    """Let all callbacks add to the record of an epoch; ``snapshots[True]`` is for those that need evaluations."""
    own = {name: value for name, value in record.items() if name in OWN or name.partition("_")[0] in _KINDS}
    for callback in callbacks:
        snapshot = snapshots[Need.EVALUATION in callback.needs]
        record |= _values(callback, "measure_epoch", callback.measure_epoch(snapshot, state))
        for name, value in own.items():
            if record.get(name) != value and value == value:
                raise UserError(
                    f"{type(callback).__name__} has changed {name!r} of a record; callbacks only add to it."
                )


def measure_end(callbacks: Sequence[Callback], snapshots: Mapping[bool, Snapshot], record: Record) -> None:
    """Let all callbacks add their final measures to the last record."""
    for callback in callbacks:
        measured = callback.measure_end(snapshots[Need.EVALUATION in callback.needs])
        record |= _values(callback, "measure_end", measured)


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
