"""Where the parameters and multiply-adds of a plain network are: by cell and by operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from archgrad.parts.fields import Count, checked
from archgrad.spaces.cost import Cost, ImageSize, sides
from archgrad.supernet import FixedCell

__all__ = ["CostRow", "CostTable", "cost_table", "training_memory"]


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


@checked
def cost_table(network: nn.Module, input_channels: Count = 3, image_size: ImageSize = 32) -> CostTable:
    """Measure the parts of a network on one image; on the device ``meta`` nothing is computed."""
    flops = _flops(network, input_channels, image_size)
    total = Cost(_parameters(network), flops[""])
    return CostTable(total, tuple(_by_cell(network, flops)), tuple(_by_operation(network, flops)))


def _by_cell(network: nn.Module, flops: Mapping[str, int]) -> Iterator[CostRow]:
    for name, child in network.named_children():
        listed = isinstance(child, nn.ModuleList)
        parts = {f"{name}.{index}": one for index, one in child.named_children()} if listed else {name: child}
        for path, part in parts.items():
            yield CostRow(path, 1, _parameters(part), flops.get(path, 0))


def _by_operation(network: nn.Module, flops: Mapping[str, int]) -> list[CostRow]:
    paths = {module: path for path, module in network.named_modules()}
    found: dict[str, list[CostRow]] = {}
    for cell in network.modules():
        for edge in cell.connections if isinstance(cell, FixedCell) else ():
            operation = edge.operations[0]
            name = edge.choices[0] if edge.choices else type(operation).__name__
            own = CostRow(name, 1, _parameters(operation), flops.get(paths[operation], 0))
            found.setdefault(name, []).append(own)
    rows = [_sum(name, own) for name, own in found.items()]
    inside = _sum("", rows)
    rest = CostRow("all else", 1, _parameters(network) - inside.parameters, flops[""] - inside.multiply_adds)
    return sorted([*rows, rest], key=lambda row: -row.multiply_adds)


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


def _flops(network: nn.Module, input_channels: int, image_size: ImageSize) -> dict[str, int]:
    """Return the multiply-adds of every module by its name; "" is the whole network."""
    parameter, training = next(network.parameters()), network.training
    image = torch.zeros(1, input_channels, *sides(image_size), dtype=parameter.dtype, device=parameter.device)
    network.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(image)
    finally:
        network.train(training)
    own = f"{type(network).__name__}."
    counts = {name.removeprefix(own): sum(of.values()) // 2 for name, of in counter.get_flop_counts().items()}
    return counts | {"": counter.get_total_flops() // 2}


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _sum(name: str, rows: Iterable[CostRow]) -> CostRow:
    rows = list(rows)
    return CostRow(
        name,
        sum(row.count for row in rows),
        sum(row.parameters for row in rows),
        sum(row.multiply_adds for row in rows),
    )
