"""Do mirrored images keep their meaning? A network that has never seen one tells."""

from __future__ import annotations

import torch

from archgrad.data import Data
from archgrad.models import Model
from archgrad.workflows.test_images import outputs_on

__all__ = ["mirror_statistic"]


def mirror_statistic(model: Model, data: Data) -> float:
    """Return by how many standard errors mirrored images fit their classes worse than the images themselves.

    With d_i = log p(y_i | x_i) − log p(y_i | mirrored x_i) for N images it is mean(d) / (std(d) / √N). If every class
    had an image and its mirror image equally often, the mean of d would be 0 for any network that has not seen these
    images; so a large value says that the two differ, as for digits and many traffic signs.
    """
    every = torch.arange(len(data))
    fits = [
        outputs_on(model.network, data, every, model.preprocessing.normalization, mirrored=mirrored)
        .log_softmax(1)
        .gather(1, data.targets[:, None])
        for mirrored in (False, True)
    ]
    difference = (fits[0] - fits[1]).double()
    error = float(difference.std()) / len(data) ** 0.5
    return float(difference.mean()) / error if error else 0.0
