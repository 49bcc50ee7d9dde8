"""Cells whose activations the backward pass computes again instead of keeping them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from archgrad.autodiff.forward_mode import open_modes, save_modes

__all__ = ["recompute_cells"]


def recompute_cells(network: nn.Module) -> int:
    """Let every backward pass compute the activations of the network's cells again; return the number of cells.

    Only the inputs of each cell stay in memory, and the activations of one cell at a time (Chen et al., 2016, "Training
    deep nets with sublinear memory cost"). All results stay the same, bit by bit. A cell is a module whose class says
    ``is_cell = True``; cells inside it are part of it.
    """
    count = 0
    for module in network.children():
        if not getattr(module, "is_cell", False):
            count += recompute_cells(module)
            continue
        if "forward" not in vars(module):
            module.forward = _Recomputed(module)
        count += 1
    return count


class _Recomputed:
    """The forward pass of a module whose activations are computed again in the backward pass."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.repeating = module, False

    def __call__(self, *inputs: Any) -> Any:
        if self.repeating:
            return self._plain(*inputs)
        if torch.is_grad_enabled():
            output = checkpoint(self._repeatable(), *inputs, use_reentrant=False)
        else:
            output = self._plain(*inputs)
        for mode in open_modes():
            mode.release_activations()
        return output

    def _plain(self, *inputs: Any) -> Any:
        return type(self.module).forward(self.module, *inputs)

    def _repeatable(self) -> Callable[..., Any]:
        """Return a function that first computes the module as it is, and later again with the same state.

        A functional call that has put parameters into the module, or a mode around it, has ended by the backward pass.
        """
        module, reopen, first = self.module, save_modes(), [True]
        parameters = dict(module.named_parameters())
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}

        def compute(*inputs: Any) -> Any:
            if first:
                first.clear()
                return self._plain(*inputs)
            copies = {name: buffer.clone() for name, buffer in buffers.items()}  # a repetition changes no state
            self.repeating = True
            try:
                with reopen():
                    return functional_call(module, {**parameters, **copies}, inputs)
            finally:
                self.repeating = False

        return compute
