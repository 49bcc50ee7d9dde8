"""Do mirrored images keep their meaning? A network that has never seen one tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from archgrad.data import Data
from archgrad.models import Model
from archgrad.tasks import BaseTask
from archgrad.workflows.candidates import Candidate, network_candidates
from archgrad.workflows.fit_trainings import FitTrainings
from archgrad.workflows.length import Length
from archgrad.workflows.pacing import balanced_size, mirror_length
from archgrad.workflows.test_images import image_losses, outputs_on

__all__ = ["flip_setting", "mirror_statistic"]

_FLIP, _DIFFERENT = "augmentation.flip", 3.0
"""Images are not mirrored if mirrored ones fit their targets worse by so many standard errors."""


def flip_setting(fit: FitTrainings) -> dict[str, bool]:
    """Tell whether to mirror images, where the data would and the user has not said: by a test, if there is time.

    A ResNet trains without mirrored images, and held-out images tell whether it takes mirrored ones alike. It is as
    wide as in the last training, whose speed is known then.
    """
    data = fit.images.train
    if _FLIP in fit.settings or not data.augmentation.flip or fit.plan.train_epochs:
        return {}
    one, *sizes = fit.decide("mirror", lambda: _network_and_length(fit))
    if not sizes:
        return {}
    network, length = Candidate.of(one), Length(*sizes)
    fit.tell(f"testing whether mirrored images keep their meaning; {fit.clock}")
    training = fit.training(replace(network, settings={_FLIP: False}), data, length)
    result = fit.carry_out(network, training, length, "mirror")
    fit.folder.spend("flips", result.runs[0].seconds)
    worse = mirror_statistic(result.model, fit.images.ranking, fit.task)
    same = worse < _DIFFERENT
    fit.tell(
        f"mirrored images fit their targets {'as well as others' if same else 'worse'} ({worse:+.1f} standard "
        f"errors), so trainings {'use' if same else 'do without'} them; {fit.clock}"
    )
    return {_FLIP: same}


def _network_and_length(fit: FitTrainings) -> list[Any]:
    """Return the network of the test, its epochs and images; the network alone if there is no time for it."""
    data, plan = fit.images.train, fit.plan
    work = balanced_size(fit.speed() * fit.clock.left, len(fit.images.every)) if plan.channels is None else 1.0
    (network,) = network_candidates([], fit.shape, work, fit.limits, 1, plan.channels, plan.cells)
    found = mirror_length(fit.clock, fit.rate(network), len(data), data.num_classes)
    return [network.to_dict(), *([] if found is None else [found.epochs, found.images])]


def mirror_statistic(model: Model, data: Data, task: BaseTask) -> float:
    """Return by how many standard errors mirrored images fit their targets worse than the images themselves.

    With d_i = loss(mirrored x_i, y_i) − loss(x_i, y_i) for N images it is mean(d) / (std(d) / √N). If every target had
    an image and its mirror image equally often, the mean of d would be 0 for any network that has not seen these
    images; so a large value says that the two differ, as for digits and many traffic signs.
    """
    every = torch.arange(len(data))
    how = model.preprocessing.normalization
    losses = [
        image_losses(task, outputs_on(model.network, data, every, how, mirrored=mirrored), data.targets)
        for mirrored in (False, True)
    ]
    difference = losses[1] - losses[0]
    error = float(difference.std()) / len(data) ** 0.5
    return float(difference.mean()) / error if error else 0.0
