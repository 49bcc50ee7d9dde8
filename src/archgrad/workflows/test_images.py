"""Outputs of a trained network on images that it has never seen, and what they say."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn

from archgrad import data as data_room
from archgrad.config import SearchConfig
from archgrad.data import Data, Normalization, as_data, duplicates_in
from archgrad.data.base import described
from archgrad.data.catalog import absolute_name
from archgrad.errors import NoTestImagesError, UserError, shortened
from archgrad.system.random_streams import generator
from archgrad.system.warn_once import warn_once
from archgrad.tasks import BaseTask, Metric, align

__all__ = [
    "accuracy_interval",
    "find_test_images",
    "image_losses",
    "measure",
    "metric_interval",
    "outputs_on",
    "resampled",
]

_AT_ONCE, _DRAWS = 256, 1000
_logger = logging.getLogger(__name__)


def find_test_images(config: SearchConfig, train: Data, given: Any = None) -> Data | None:
    """Return the test images: those given, or those of the data's own source; None if it has none.

    They must have the classes and the shape of the training images.
    """
    found = _test_part(config) if given is None else _given_images(config, given)
    if given is None and found is not None and found.digest() == train.digest():
        return None  # a user's own source that has no parts
    if found is not None:
        _check_alike(train, found)
        if copies := int(duplicates_in(train, found).sum()):
            warn_once(
                _logger, "%d of %d test images are also training images, pixel by pixel: the test is too easy.", copies,
                len(found),
            )  # fmt: skip
    return found


def _test_part(config: SearchConfig) -> Data | None:
    """Return the test part of the source of the training images, None if there is none."""
    name, folder, size = config.data, config.data_dir, config.image_size
    resize: str = config.resize
    strict = config.strict
    if not isinstance(name, str):
        origin = name.origin
        if origin is None:
            return None
        name, folder, size, resize = origin.spec, origin.folder, origin.options.image_size, origin.options.resize
        strict = origin.options.strict
    try:
        found = data_room.load(name, data_dir=folder, image_size=size, resize=resize, strict=strict, train=False)
    except NoTestImagesError:
        return None
    return found if isinstance(config.data, str) else _resized(config, found)


def _given_images(config: SearchConfig, given: Any) -> Data:
    """Return the images that a user gives for the test: the test part of a name, or all that it has."""
    if not isinstance(given, str):
        images = as_data(given)
        assert not isinstance(images, str)  # noqa: S101 - for the type checker
        return _resized(config, images)
    how: dict[str, Any] = {"data_dir": config.data_dir, "image_size": config.image_size, "resize": config.resize}
    how["strict"] = config.strict
    try:
        return data_room.load(given, **how, train=False)
    except NoTestImagesError as error:
        if isinstance(config.data, str) and absolute_name(given) == absolute_name(config.data):
            raise UserError(
                f"the test images {shortened(given)} are the training images; leave them out, or give others."
            ) from error
        return data_room.load(given, **how)


def _resized(config: SearchConfig, images: Data) -> Data:
    return data_room.LoadOptions(False, None, config.image_size, config.resize).apply(images)


def _check_alike(train: Data, test: Data) -> None:
    if test.classes != train.classes[: len(test.classes)] or bool(test.classes) != bool(train.classes):
        extra = sorted(set(test.classes) ^ set(train.classes))[:3] or ["their order"]
        raise UserError(
            f"the test images have {len(test.classes)} classes and the training images {len(train.classes)}; they "
            f"differ in {', '.join(extra)}; give test images of the same classes."
        )
    if test.targets.shape[1:] != train.targets.shape[1:]:
        raise UserError(
            f"the test targets are {described(test.targets)}, but the training targets are "
            f"{described(train.targets)}; give test images with targets of the same kind."
        )
    if test.shape != train.shape:
        shapes = ["×".join(map(str, one.shape)) for one in (test, train)]
        raise UserError(
            f"the test images are {shapes[0]} (channels × height × width), but the training images are {shapes[1]}; "
            f"give image_size (--image-size), which resizes both."
        )


def outputs_on(
    network: nn.Module, data: Data, indices: Tensor, normalization: Normalization, *, mirrored: bool = False
) -> Tensor:
    """Return the outputs [N, K] of a network in evaluation mode, on the CPU; of ``mirrored`` images if wanted."""
    device = next(network.parameters()).device
    network.eval()
    found = []
    with torch.inference_mode():
        for part in torch.split(indices, _AT_ONCE):
            read = data.read(part)
            images = normalization(read.flip(-1) if mirrored else read).contiguous(memory_format=torch.channels_last)
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
    from scipy.stats import binomtest

    ends = binomtest(correct, images).proportion_ci(method="wilson")
    return 100 * float(ends.low), 100 * float(ends.high)


def image_losses(task: BaseTask, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each image alone, float64 [N]."""
    outputs = align(outputs, targets)
    each = [task.loss(outputs[one : one + 1], targets[one : one + 1]) for one in range(len(targets))]
    return torch.stack(each).double()


def resampled(metric: Metric, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the metric of 1,000 random sets of these images, each as large and drawn with replacement.

    Their standard deviation is the standard error of the metric (the bootstrap: Efron, 1979).
    """
    outputs, draws, count = align(outputs, targets), generator(0, "bootstrap"), len(targets)
    sets = (torch.randint(count, (count,), generator=draws) for _ in range(_DRAWS))
    return torch.tensor([float(metric.of_batch(outputs[one], targets[one])) for one in sets], dtype=torch.float64)


def metric_interval(metric: Metric, outputs: Tensor, targets: Tensor) -> tuple[float, float]:
    """Return the 95 % interval of a metric: Wilson's of a proportion, the percentiles of the bootstrap of others."""
    if metric.proportion:
        return accuracy_interval(int(metric.ratio(outputs, targets)[0]), len(targets))
    low, high = resampled(metric, outputs, targets).nanquantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    return float(low), float(high)
