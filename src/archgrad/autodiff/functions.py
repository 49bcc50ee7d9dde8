"""Helpers for autograd functions."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from archgrad.system.torch_compat import apply_function, will_execute

__all__ = ["apply", "apply_all", "needed_gradients"]


def apply(function: type[Function], *inputs: Any) -> Tensor:
    """Call a differentiable function with one output."""
    output: Tensor = apply_function(function, inputs)
    return output


def apply_all(function: type[Function], *inputs: Any) -> tuple[Any, ...]:
    """Call a differentiable function with several outputs, some of which may be None."""
    outputs: tuple[Any, ...] = apply_function(function, inputs)
    return outputs


def needed_gradients(ctx: Any, first: int = 0) -> list[bool]:
    """Tell for each input from ``first`` on whether the running backward pass needs its gradient.

    ``ctx.needs_input_grad`` tells whether any pass may need it: it counts the weights even when only the gradient of
    the mixture is computed. From ``first`` on, tensors must precede all other inputs. Leaves always count, because the
    engine does not tell whether they are needed; a view of a leaf is not a leaf.
    """
    needs = ctx.needs_input_grad[first:]
    if sum(needs) < 2:  # this pass needs at least one of them
        return list(needs)
    nodes = [node for node, _ in ctx.next_functions]
    return [need and (place >= len(nodes) or _runs(nodes[place])) for place, need in enumerate(needs)]


def _runs(node: Any) -> bool:
    leaf = not node.next_functions
    return leaf or will_execute(node)
