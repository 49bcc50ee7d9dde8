"""Copy the weights of a supernet into the plain network of one of its architectures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.supernet import FixedCell, MixedCell, Supernet

__all__ = ["copy_shared_weights", "measure_norms"]


def copy_shared_weights(supernet: Supernet, network: nn.Module) -> None:
    """Give every operation of a plain network the weights that it has in the supernet.

    Batch norms of a supernet have no weights, so those of the network keep theirs, 1 and 0.
    """
    shared = {name.removeprefix("body."): value for name, value in supernet.named_parameters()}
    inside: set[str] = set()
    for path, cell in network.named_modules():
        if isinstance(cell, FixedCell):
            _copy_cell(_mixed_cell(supernet, path), cell)
            inside |= {path, *(f"{path}.{name}" for name, _ in cell.named_parameters())}
    if not inside:
        raise UserError(
            "the supernet of this space has other layers than its networks, so they cannot share weights; take the "
            "network untrained."
        )
    own = {name: value for name, value in network.named_parameters() if name not in inside}
    _copy_all((shared[name], value) for name, value in own.items() if name in shared)


def _mixed_cell(supernet: Supernet, path: str) -> MixedCell:
    found = supernet.body.get_submodule(path)
    if isinstance(found, MixedCell) and found.partial > 1:
        raise UserError(
            f"this supernet computes 1/{found.partial} of the channels (supernet.partial), so its operations have too "
            f"few weights for a network; take the network untrained."
        )
    if not isinstance(found, MixedCell) or not all(edge.choices for edge in found.connections):
        raise UserError("the cells of this space do not name their operations; build their edges with build_edges.")
    return found


def _copy_cell(mixed: MixedCell, fixed: FixedCell) -> None:
    offered = {
        (edge.source, edge.target, choice): operation
        for edge in mixed.connections
        for choice, operation in zip(edge.choices, edge.operations, strict=True)
    }
    added = {(edge.source, edge.target): edge.added for edge in mixed.connections}
    for edge in fixed.connections:
        _copy_named(offered[edge.source, edge.target, edge.choices[0]], edge.operations[0])
        if edge.added is not None:
            _copy_named(added[edge.source, edge.target], edge.added)


def _copy_named(mixed: nn.Module | None, fixed: nn.Module) -> None:
    shared = dict(mixed.named_parameters()) if mixed is not None else {}
    _copy_all((shared[name], value) for name, value in fixed.named_parameters() if name in shared)


def _copy_all(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    with torch.no_grad():
        for value, parameter in pairs:
            parameter.copy_(value)


def measure_norms(network: nn.Module, batches: Iterator[Tensor]) -> None:
    """Set the running statistics of all batch norms to their means over these batches; leave it in evaluation mode."""
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over all batches
    network.train()
    with torch.no_grad():
        for inputs in batches:
            network(inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.eval()
