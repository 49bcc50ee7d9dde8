"""Loss and accuracy on images that train neither weights nor architecture."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from archgrad import random_streams
from archgrad.autodiff.gradients import detached_parameters
from archgrad.data import Loader
from archgrad.loop.state import BatchMetrics, MetricSums, SearchState
from archgrad.loop.supernet_losses import SupernetLosses

__all__ = ["evaluate_held_out"]


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
            logits = losses.plain(weights, batch.images, relaxed.mixture, active=relaxed.active, seed=seed, **extra)
        loss = F.cross_entropy(logits, batch.labels).item()
        correct = int((logits.argmax(1) == batch.labels).sum())
        sums.add(BatchMetrics("heldout", loss, correct, len(batch.labels)))
        labels.append(batch.labels)
    counts = torch.cat(labels).bincount()
    images = int(counts.sum())
    return {**sums.means(), "heldout_chance": 100 * counts.max().item() / images, "heldout_images": images}
