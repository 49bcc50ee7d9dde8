"""The size of a plain network: trainable parameters and multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from archgrad.errors import UserError
from archgrad.parts.fields import Count, Range, checked

__all__ = ["Cost", "ImageSize", "cost", "count_parts", "read_around", "sides"]

_Side = Annotated[int, Range(1, 10_000)]
ImageSize = _Side | tuple[_Side, _Side]
"""The side of a square image in pixels, or height and width."""


@dataclass(frozen=True)
class Cost:
    """Trainable parameters, and multiply-adds of convolutions and matrix products for one image."""

    parameters: int
    multiply_adds: int

    def __str__(self) -> str:
        return f"{self.parameters / 1e6:.3f} M parameters, {self.multiply_adds / 1e6:.2f} M multiply-adds"


@checked
def cost(network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32) -> Cost:
    """Measure a network on one image with PyTorch's own counter (two operations make one multiply-add)."""
    parameters = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    parameter = next(network.parameters(), None)
    if parameter is None:
        raise UserError("network has no parameters, so it has no cost; give a network that can be trained.")
    image = torch.zeros(1, input_channels, *sides(image_size), dtype=parameter.dtype, device=parameter.device)
    training = network.training
    network.eval()
    try:
        with torch.no_grad(), _OperationCounter() as counter:
            network(image)
    finally:
        network.train(training)
    return Cost(parameters, counter.operations // 2)


def count_parts(
    network: nn.Module, parts: Sequence[nn.Module], input_channels: int, image_size: ImageSize
) -> tuple[float, list[float]]:
    """Return the multiply-adds of a network on one image, and those of some of its modules."""
    parameter = next(network.parameters())
    image = torch.zeros(1, input_channels, *sides(image_size), dtype=parameter.dtype, device=parameter.device)
    network.eval()
    with torch.no_grad(), _OperationCounter() as counter, read_around(parts, lambda: counter.operations / 2) as found:
        network(image)
    return counter.operations / 2, [sum(found[part]) for part in parts]


@contextmanager
def read_around(parts: Iterable[nn.Module], read: Callable[[], float]) -> Iterator[dict[nn.Module, list[float]]]:
    """Note by how much a reading grows in every call of these modules, inside the block."""
    grown: dict[nn.Module, list[float]] = {part: [] for part in parts}
    before: dict[nn.Module, float] = {}

    def begin(part: nn.Module, inputs: object) -> None:
        before[part] = read()

    def end(part: nn.Module, inputs: object, output: object) -> None:
        grown[part].append(read() - before[part])

    handles = [part.register_forward_pre_hook(begin) for part in grown]
    handles += [part.register_forward_hook(end) for part in grown]
    try:
        yield grown
    finally:
        for handle in handles:
            handle.remove()


class _OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations by the formulas of PyTorch's own counter, without its record of modules, which is slow."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.operations += formula(*args, **(kwargs or {}), out_val=output)
        return output


def sides(size: ImageSize) -> tuple[int, int]:
    """Return height and width.

    >>> sides(32), sides((8, 12))
    ((32, 32), (8, 12))
    """
    return (size, size) if isinstance(size, int) else size
