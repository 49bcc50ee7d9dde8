"""Evaluates architectures with the weights of a search, and the search itself on held-out images."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F

from archgrad import random_streams
from archgrad.autodiff.gradients import detached_parameters
from archgrad.data import Loader
from archgrad.discretizers import SupernetEvaluation, Tuning
from archgrad.loop.divergence import check_state
from archgrad.loop.setup import Setup
from archgrad.loop.state import BatchMetrics, MetricSums, SearchState
from archgrad.loop.supernet_losses import SupernetLosses, forward_of
from archgrad.relaxations import Relaxed
from archgrad.tensors import Mixture, Probabilities

__all__ = ["evaluate_held_out", "supernet_evaluation"]

Report = Callable[[str, int, int], None]


def supernet_evaluation(
    setup: Setup,
    state: SearchState,
    report: Report = lambda what, done, total: None,
    between: Callable[[], None] = lambda: None,
) -> SupernetEvaluation:
    """Return an evaluation of mixtures with the present weights, on the images of the evaluation loader.

    Its ``tune`` continues a copy of the search, and evaluates that copy from then on. The search itself does not
    change. ``between`` is called before every batch and may raise to end the evaluation.
    """
    seed = random_streams.seed_of(setup.seed, "judge")
    copies: list[SearchState] = []

    def accuracy(mixture: Mixture, number: int) -> float:
        between()
        supernet = (copies or [state])[0].supernet
        batch, relaxed = setup.evaluation_loader.batch(number), _relaxed(mixture, state.device)
        with torch.no_grad():
            forward = forward_of(supernet, local_batch_norm=setup.local_batch_norm)
            logits = forward({}, batch, relaxed.mixture, active=relaxed.active, seed=seed)
        return 100 * float((logits.argmax(1) == batch.targets).double().mean())

    def tune(tuning: Tuning) -> Probabilities:
        if not copies:
            copies.append(_copied(setup, state))
        return _tune(setup, copies[0], tuning, between)

    draws = random_streams.generator(setup.seed, "judge", "draws", state.epoch)
    return SupernetEvaluation(accuracy, draws, setup.evaluation_loader.steps, tune, report)


def _relaxed(mixture: Mixture, device: torch.device) -> Relaxed:
    """Return the mixture with only the choices active that have a weight."""
    weights = Mixture({name: value.to(device) for name, value in mixture.items()})
    return Relaxed(weights, {name: value != 0 for name, value in weights.items()})


def _copied(setup: Setup, state: SearchState) -> SearchState:
    """Copy the state at the end of the last epoch, without momentum."""
    supernet = deepcopy(state.supernet)
    settings = setup.weights
    optimizer = torch.optim.SGD(
        supernet.parameters(), lr=settings.lr, momentum=settings.momentum, nesterov=settings.nesterov
    )
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
    """Measure loss and accuracy in per cent on held-out images, without augmentation.

    The network is that of the architecture step. Where the relaxation samples, each batch has its own mixture.
    ``heldout_chance`` is the accuracy of always naming the most common class.
    """
    sums, weights, labels = MetricSums(), detached_parameters(state.supernet, state.weights), []
    for number in range(loader.steps):
        batch, stream = loader.batch(number), ("held-out", state.epoch, number)
        with torch.no_grad(), random_streams.SavedRandomState(state.device).replay():
            relaxed = losses.relax(state.alpha, losses.noise(state, *stream), state)
            seed = random_streams.seed_of(losses.seed, "supernet", *stream)
            extra = losses.modifier_arguments(state, "evaluation")
            logits = losses.plain(weights, batch, relaxed.mixture, active=relaxed.active, seed=seed, **extra)
        loss = F.cross_entropy(logits, batch.targets).item()
        correct = int((logits.argmax(1) == batch.targets).sum())
        sums.add(BatchMetrics("heldout", loss, correct, len(batch.targets)))
        labels.append(batch.targets)
    counts = torch.cat(labels).bincount()
    images = int(counts.sum())
    return {**sums.means(), "heldout_chance": 100 * counts.max().item() / images, "heldout_images": images}
