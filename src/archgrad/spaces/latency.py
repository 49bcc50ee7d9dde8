"""The time that a network takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from statistics import median

import torch
from torch import Tensor, nn

from archgrad.parts.fields import Count, checked
from archgrad.spaces.cost import ImageSize, read_around, sides

__all__ = ["measure_latency", "time_parts"]

_WARM_UP, _LEAST, _MOST, _SECONDS = 3, 5, 100, 1.0


@checked
def measure_latency(
    network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32, batch_size: Count = 1
) -> float:
    """Return the median seconds of a forward pass in evaluation mode, after a few to warm up.

    It runs for about a second, at least 5 and at most 100 times.
    """
    return median(_pass_times(network, input_channels, image_size, batch_size))


def time_parts(
    network: nn.Module, kinds: Mapping[nn.Module, Hashable], input_channels: int, image_size: ImageSize
) -> tuple[float, list[float]]:
    """Return the median seconds of a network for one image, and those of some of its modules.

    Modules of one kind with inputs of one shape share all their times, so they have the same median.
    """
    sizes: dict[nn.Module, tuple[int, ...]] = {}

    def note(part: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        sizes[part] = tuple(inputs[0].shape)

    handles = [part.register_forward_pre_hook(note) for part in kinds]
    with read_around(kinds, time.perf_counter) as found:
        whole = median(_pass_times(network, input_channels, image_size, 1))
    for handle in handles:
        handle.remove()
    times: dict[Hashable, list[float]] = {}
    for part, kind in kinds.items():
        times.setdefault((kind, sizes[part]), []).extend(found[part][_WARM_UP:])
    return whole, [median(times[kind, sizes[part]]) for part, kind in kinds.items()]


def _pass_times(network: nn.Module, input_channels: int, image_size: ImageSize, batch_size: int) -> list[float]:
    """Return the seconds of each forward pass in evaluation mode, after those to warm up."""
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
    return times[_WARM_UP:]


def _wait(device: torch.device) -> None:
    """Wait for the device: an accelerator returns before it has finished."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
