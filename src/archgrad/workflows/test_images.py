"""Outputs of a trained network on images that it has never seen, and what they say."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from archgrad import data as data_room
from archgrad.config import SearchConfig
from archgrad.data import Data, Normalization, as_data
from archgrad.errors import NoTestImagesError, UserError
from archgrad.tasks import BaseTask, align

__all__ = ["accuracy_interval", "find_test_images", "measure", "outputs_on"]

_AT_ONCE = 256


def find_test_images(config: SearchConfig, train: Data, given: Any = None) -> Data | None:
    """Return the test images: those given, or those of the data's own source; None if it has none.

    They must have the classes and the shape of the training images.
    """
    if given is not None and not isinstance(given, str):
        options = data_room.LoadOptions(False, None, config.image_size, config.fit)
        given = as_data(given)
        assert not isinstance(given, str)  # noqa: S101 - for the type checker
        found = options.apply(given)
    elif given is None and not isinstance(config.data, str):
        return None
    else:
        how: dict[str, Any] = {"data_dir": config.data_dir, "image_size": config.image_size, "fit": config.fit}
        try:
            found = data_room.load(str(given or config.data), **how, train=False)
        except NoTestImagesError:
            if given is None:
                return None
            found = data_room.load(given, **how)  # all of it
    _check_alike(train, found)
    return found


def _check_alike(train: Data, test: Data) -> None:
    if test.classes != train.classes:
        extra = sorted(set(test.classes) ^ set(train.classes))[:3] or ["their order"]
        raise UserError(
            f"the test images have {len(test.classes)} classes and the training images {len(train.classes)}; they "
            f"differ in {', '.join(extra)}; give test images of the same classes."
        )
    if test.shape != train.shape:
        shapes = ["×".join(map(str, one.shape)) for one in (test, train)]
        raise UserError(
            f"the test images are {shapes[0]} (channels × height × width), but the training images are {shapes[1]}; "
            f"give image_size (--image-size), which resizes both."
        )


def outputs_on(network: nn.Module, data: Data, indices: Tensor, normalization: Normalization) -> Tensor:
    """Return the outputs [N, K] of a network in evaluation mode, on the CPU."""
    device = next(network.parameters()).device
    network.eval()
    found = []
    with torch.inference_mode():
        for part in torch.split(indices, _AT_ONCE):
            images = normalization(data.read(part)).contiguous(memory_format=torch.channels_last)
            found.append(network(images.to(device)).float().cpu())
    return torch.cat(found)


def measure(task: BaseTask, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """Return the loss and all metrics of a set, by name."""
    outputs = align(outputs, targets)
    found = {"loss": float(task.loss(outputs, targets))}
    return found | {name: float(metric.of_batch(outputs, targets)) for name, metric in task.all_metrics.items()}


def accuracy_interval(correct: int, images: int) -> tuple[float, float]:
    """Return the 95 % interval of an accuracy in per cent (Wilson, 1927).

    >>> [round(one, 1) for one in accuracy_interval(90, 100)]
    [82.6, 94.5]
    """
    z, share = 1.959964, correct / images
    middle = (share + z * z / (2 * images)) / (1 + z * z / images)
    half = z / (1 + z * z / images) * math.sqrt(share * (1 - share) / images + z * z / (4 * images**2))
    return 100 * (middle - half), 100 * (middle + half)
