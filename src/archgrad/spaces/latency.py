"""The time that a network takes on this machine."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

from archgrad.fields import Count, checked
from archgrad.spaces.cost import ImageSize, sides

__all__ = ["measure_latency"]

_WARM_UP, _LEAST, _MOST, _SECONDS = 3, 5, 100, 1.0


@checked
def measure_latency(
    network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32, batch_size: Count = 1
) -> float:
    """Return the median seconds of a forward pass in evaluation mode, after a few to warm up.

    It runs for about a second, at least 5 and at most 100 times.
    """
    parameter, training = next(network.parameters()), network.training
    shape = (batch_size, input_channels, *sides(image_size))
    images = torch.zeros(shape, dtype=parameter.dtype, device=parameter.device)
    network.eval()
    times: list[float] = []
    try:
        with torch.inference_mode():
            for number in range(_WARM_UP + _MOST):
                started = time.perf_counter()
                network(images)
                _wait(parameter.device)
                times.append(time.perf_counter() - started)
                if number >= _WARM_UP + _LEAST and sum(times[_WARM_UP:]) > _SECONDS:
                    break
    finally:
        network.train(training)
    return median(times[_WARM_UP:])


def _wait(device: torch.device) -> None:
    """Wait for the device: an accelerator returns before it has finished."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
