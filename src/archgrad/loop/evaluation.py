"""Evaluates architectures with the weights of a search, and the search itself on held-out images."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy

import torch

from archgrad.autodiff.gradients import detached_parameters
from archgrad.autodiff.tensors import Mixture, Probabilities, Weights
from archgrad.data import Loader
from archgrad.discretizers import SupernetEvaluation, Tuning
from archgrad.loop.divergence import check_state
from archgrad.loop.metric_sums import BatchMetrics, MetricSums
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState
from archgrad.loop.supernet_losses import SupernetLosses, forward_of
from archgrad.relaxations import Relaxed
from archgrad.system import random_streams
from archgrad.tasks import align

__all__ = ["evaluate_held_out", "supernet_evaluation"]

Report = Callable[[str, int, int], None]


def supernet_evaluation(
    setup: Setup,
    state: SearchState,
    report: Report = lambda what, done, total: None,
    between: Callable[[], None] = lambda: None,
) -> SupernetEvaluation:
    """Return an evaluation of mixtures with the present weights, on the images of the evaluation loader.

    It measures the task's main metric. Its ``tune`` continues a copy of the search, and evaluates that copy from then
    on. The search itself does not change. ``between`` is called before every batch and may raise to end the evaluation.
    """
    seed = random_streams.seed_of(setup.seed, "judge")
    copies: list[SearchState] = []
    main = setup.task.main_metric

    def measure(mixture: Mixture, number: int) -> float:
        between()
        supernet = (copies or [state])[0].supernet
        batch, relaxed = setup.evaluation_loader.batch(number), _relaxed(mixture, state.device)
        with torch.no_grad():
            forward = forward_of(supernet, local_batch_norm=setup.local_batch_norm)
            outputs = forward({}, batch, relaxed.mixture, active=relaxed.active, seed=seed)
            return main.of_batch(align(outputs, batch.targets), batch.targets)

    def tune(tuning: Tuning) -> Probabilities:
        if not copies:
            copies.append(_copied(setup, state))
        return _tune(setup, copies[0], tuning, between)

    draws = random_streams.generator(setup.seed, "judge", "draws", state.epoch)
    return SupernetEvaluation(measure, draws, setup.evaluation_loader.steps, tune, report, main.info)


def _relaxed(mixture: Mixture, device: torch.device) -> Relaxed:
    """Return the mixture with only the choices active that have a weight."""
    weights = Mixture({name: value.to(device) for name, value in mixture.items()})
    return Relaxed(weights, {name: value != 0 for name, value in weights.items()})


def _copied(setup: Setup, state: SearchState) -> SearchState:
    """Copy the state at the end of the last epoch, with a new optimizer of the weights."""
    supernet = deepcopy(state.supernet)
    optimizer = setup.weights.make_optimizer(supernet.parameters())
    return SearchState(
        supernet,
        state.alpha,
        state.arch_state,
        optimizer,
        state.epochs,
        state.steps,
        state.genotype,
        epoch=state.epochs - 1,
        step=state.steps,
        trusted=dict(state.trusted),
        loss_scale=copy(state.loss_scale),
        hypergradient_state=state.hypergradient_state,
    )


def _tune(setup: Setup, copy: SearchState, tuning: Tuning, between: Callable[[], None]) -> Probabilities:
    """Continue the steps of a search on the batches that follow, without regularizers."""
    optimizer, stepper = setup.method.arch_optimizer, setup.stepper(copy).tuning(tuning)
    free = not all(bool(decided.all()) for decided in tuning.decided.values())
    for _ in range(tuning.epochs * copy.steps):
        between()
        batches = setup.step_batches(copy.index)
        if free and not optimizer.finite and setup.moves(copy.index).architecture:
            stepper.architecture_step(copy, batches)
        stepper.weight_step(copy, batches.inner(0))
        copy.step += 1
    check_state(copy)
    return setup.method.relaxation.probabilities(setup.blocks, copy.alpha)


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
    return found | _known("heldout_chance", chance) | {"heldout_images": sum(map(len, targets))}


def _known(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}
