"""What a network takes: parameters, multiply-adds, memory and time, of the whole or by its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from archgrad.errors import UserError
from archgrad.parts.fields import Count, Range, checked
from archgrad.supernet import FixedCell

__all__ = [
    "Cost",
    "CostRow",
    "CostTable",
    "ImageSize",
    "cost",
    "cost_table",
    "count_parameters",
    "count_parts",
    "measure_latency",
    "sides",
    "time_parts",
    "training_memory",
]

_Side = Annotated[int, Range(1, 10_000)]
ImageSize = _Side | tuple[_Side, _Side]
"""The side of a square image in pixels, or height and width."""
_WARM_UP, _LEAST, _MOST, _SECONDS = 3, 5, 100, 1.0


@dataclass(frozen=True)
class Cost:
    """Trainable parameters, and multiply-adds of convolutions and matrix products for one image."""

    parameters: int
    multiply_adds: int

    def __str__(self) -> str:
        return f"{self.parameters / 1e6:.3f} M parameters, {self.multiply_adds / 1e6:.2f} M multiply-adds"


@dataclass(frozen=True)
class CostRow:
    """The cost of a part of a network, which occurs ``count`` times."""

    name: str
    count: int
    parameters: int
    multiply_adds: int


@dataclass(frozen=True)
class CostTable:
    """The cost of a network by ``cells`` (with stem and head), and by kinds of ``operations``, the largest first.

    Either adds up to the ``total``.
    """

    total: Cost
    cells: tuple[CostRow, ...]
    operations: tuple[CostRow, ...]


def sides(size: ImageSize) -> tuple[int, int]:
    """Return height and width.

    >>> sides(32), sides((8, 12))
    ((32, 32), (8, 12))
    """
    return (size, size) if isinstance(size, int) else size


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


@checked
def cost(network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32) -> Cost:
    """Measure a network on one image; on the device ``meta`` nothing is computed."""
    return Cost(count_parameters(network), count_parts(network, (), input_channels, image_size)[0])


def count_parts(
    network: nn.Module, parts: Sequence[nn.Module], input_channels: int, image_size: ImageSize
) -> tuple[int, list[int]]:
    """Return the multiply-adds of a network on one image, and those of some of its modules."""
    counter = _OperationCounter()
    counted = _differences(parts, lambda: counter.operations)
    with _evaluating(network, 1, input_channels, image_size) as image, counter, counted as found:
        network(image)
    return counter.operations // 2, [int(sum(found[part])) // 2 for part in parts]


@checked
def cost_table(network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32) -> CostTable:
    """Measure the parts of a network on one image; on the device ``meta`` nothing is computed."""
    cells, operations = list(_children(network)), list(_edges(network))
    modules = [module for _, module in (*cells, *operations)]
    total, found = count_parts(network, modules, input_channels, image_size)
    rows = [
        CostRow(name, 1, count_parameters(module), spent)
        for (name, module), spent in zip((*cells, *operations), found, strict=True)
    ]
    kinds: dict[str, list[CostRow]] = {}
    for row in rows[len(cells) :]:
        kinds.setdefault(row.name, []).append(row)
    by_kind = [CostRow(name, len(own), *_sums(own)) for name, own in kinds.items()]
    whole, inside = Cost(count_parameters(network), total), _sums(by_kind)
    rest = CostRow("all else", 1, whole.parameters - inside[0], whole.multiply_adds - inside[1])
    by_operation = sorted([rest, *by_kind], key=lambda row: -row.multiply_adds)
    return CostTable(whole, tuple(rows[: len(cells)]), tuple(by_operation))


def _sums(rows: Iterable[CostRow]) -> tuple[int, int]:
    """Return the parameters and multiply-adds of all rows together."""
    return sum(row.parameters for row in rows), sum(row.multiply_adds for row in rows)


def _children(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the parts of a network in a row, by their paths; a list of cells has as many parts."""
    for name, child in network.named_children():
        if isinstance(child, nn.ModuleList):
            yield from ((f"{name}.{index}", one) for index, one in child.named_children())
        else:
            yield name, child


def _edges(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the name and the operation of every edge."""
    for cell in network.modules():
        for edge in cell.connections if isinstance(cell, FixedCell) else ():
            operation = edge.operations[0]
            yield edge.choices[0] if edge.choices else type(operation).__name__, operation


@checked
def training_memory(network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32) -> int:
    """Return the bytes that a training step keeps for the backward pass, for each image; nothing is computed."""
    network, kept = deepcopy(network).to("meta").train(), dict[int, int]()
    parameters = {parameter.untyped_storage()._cdata for parameter in network.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    images = torch.zeros(2, input_channels, *sides(image_size), device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = network(images)  # held, so that no storage is freed and its number given to another
    del outputs
    return sum(kept.values()) // len(images)


@checked
def measure_latency(
    network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32, batch_size: Count = 1
) -> float:
    """Return the median seconds of a forward pass in evaluation mode, after a few to warm up.

    It runs for about a second, at least 5 and at most 100 times. If a pass takes longer, the second one counts.
    """
    times: list[float] = []
    with _evaluating(network, batch_size, input_channels, image_size) as images, torch.inference_mode():
        for number in range(_WARM_UP + _MOST):
            started = time.perf_counter()
            network(images)
            if images.device.type != "cpu":  # an accelerator returns before it has finished
                torch.accelerator.synchronize(images.device)
            times.append(time.perf_counter() - started)
            warm, least = (_WARM_UP, _LEAST) if times[0] < _SECONDS else (1, 0)
            if number >= warm + least and sum(times[warm:]) > _SECONDS * bool(least):
                break
    return median(times[warm:])


def time_parts(
    network: nn.Module, kinds: Mapping[nn.Module, Hashable], input_channels: int, image_size: ImageSize
) -> tuple[float, list[float]]:
    """Return the median seconds of a network for one image, and those of some of its modules.

    Modules of one kind with inputs and outputs of one shape share all their times, so they have the same median.
    """
    sizes: dict[nn.Module, tuple[torch.Size, torch.Size]] = {}

    def note(part: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        sizes[part] = inputs[0].shape, output.shape

    with _differences(kinds, time.perf_counter) as found:
        handles = [part.register_forward_hook(note) for part in kinds]
        whole = measure_latency(network, input_channels, image_size)
    for handle in handles:
        handle.remove()
    times: dict[Hashable, list[float]] = {}
    for part, kind in kinds.items():
        times.setdefault((kind, sizes[part]), []).extend(found[part][_WARM_UP:] or found[part][1:])
    return whole, [median(times[kind, sizes[part]]) for part, kind in kinds.items()]


@contextmanager
def _evaluating(network: nn.Module, images: int, channels: int, size: ImageSize) -> Iterator[Tensor]:
    """Yield black images for a network, which is in evaluation mode and without gradients inside the block."""
    parameter, training = next(network.parameters(), None), network.training
    if parameter is None:
        raise UserError("network has no parameters, so it has no cost; give a network that can be trained.")
    network.eval()
    try:
        with torch.no_grad():
            yield torch.zeros(images, channels, *sides(size), dtype=parameter.dtype, device=parameter.device)
    finally:
        network.train(training)


@contextmanager
def _differences(parts: Iterable[nn.Module], read: Callable[[], float]) -> Iterator[dict[nn.Module, list[float]]]:
    """Record by how much a counter grows in every call of these modules, inside the block."""
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
    """Counts operations by the formulas of PyTorch's own counter, without its record of modules, which is slow.

    Two operations make one multiply-add.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        first, aten = args[0] if args else None, torch.ops.aten
        if isinstance(first, Tensor) and first.is_meta:  # PyTorch needs half of the time to find the shapes of these
            if func is aten.native_batch_norm.default:
                return first, first, first
            if func in (aten.relu.default, aten.add.Tensor) and first.shape == getattr(args[-1], "shape", None):
                return first
        output = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.operations += formula(*args, **(kwargs or {}), out_val=output)
        return output
