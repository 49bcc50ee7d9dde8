"""Start a new network from the weights of a trained model, as far as they fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from archgrad.errors import UserError
from archgrad.models.model import Model
from archgrad.operations import Operation

__all__ = ["TransferredWeights", "copy_matching_weights"]

_SHOWN = 4


@dataclass(frozen=True)
class TransferredWeights:
    """The names of the tensors that were copied, and of those that are new, in the order of the network.

    >>> print(TransferredWeights(("stem.weight",), ("classifier.weight", "classifier.bias")))
    1 of 3 tensors; new: classifier.weight, classifier.bias
    """

    copied: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.new[:_SHOWN]) + (", …" if len(self.new) > _SHOWN else "")
        total = len(self.copied) + len(self.new)
        return f"{len(self.copied)} of {total} tensors" + (f"; new: {names}" if self.new else "")


def copy_matching_weights(network: nn.Module, model: Model) -> TransferredWeights:
    """Copy the model's weights and running statistics into a network, and tell what was copied.

    Classes, input channels, stem and depth may differ. A layer or an operation is copied as a whole, if the model has
    one of the same name, kind, shapes and stride. Less than half of the smaller network is an error, and changes
    nothing.
    """
    own, known = dict(_units("", network)), dict(_units("", model.network))
    fitting = {name for name, unit in own.items() if name in known and _agree(unit, known[name])}
    names = {name: [_joined(name, key) for key in unit.state_dict()] for name, unit in own.items()}
    copied = [key for name in own if name in fitting for key in names[name]]
    smaller = min(len(network.state_dict()), len(model.network.state_dict()))
    if 2 * len(copied) < smaller or not copied:
        space = model.space
        raise UserError(
            f"only {len(copied)} of {smaller} tensors of the model fit this network; choose its space {space.name!r}, "
            f"its genotype, its width {space.channels} and its depth {getattr(space, space.depth_knob)}, or train "
            f"without its weights."
        )
    with torch.no_grad():
        for name in fitting:
            own[name].load_state_dict(known[name].state_dict())
    return TransferredWeights(tuple(copied), tuple(key for key in network.state_dict() if key not in set(copied)))


def _units(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the operations, and the layers outside of them, with their names."""
    children, has_own = list(module.named_children()), next(module.parameters(recurse=False), None) is not None
    if isinstance(module, Operation) or has_own or not children:
        yield name, module
        return
    for child, one in children:
        yield from _units(_joined(name, child), one)


def _joined(name: str, child: str) -> str:
    return f"{name}.{child}" if name else child


def _agree(one: nn.Module, other: nn.Module) -> bool:
    """Tell whether two units are of the same kind; their printed form has kernels and strides."""
    shapes = [{key: value.shape for key, value in unit.state_dict().items()} for unit in (one, other)]
    return bool(shapes[0]) and shapes[0] == shapes[1] and repr(one) == repr(other)
