"""What the differentiable functions of this package have in common."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from archgrad._compat import apply_function, will_execute

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
    """Say of every input from the ``first`` on whether the running backward pass reads its gradient.

    ``ctx.needs_input_grad`` says whether anybody ever may: it counts the weights even while the gradient of the mixture
    alone is asked for. From the first on, tensors stand before all else. Leaves always count, because the engine does
    not tell whether they are asked for; a view of a leaf is none.
    """
    needs = ctx.needs_input_grad[first:]
    if sum(needs) < 2:  # the pass would not have come here for nothing
        return list(needs)
    nodes = [node for node, _ in ctx.next_functions]
    return [need and (place >= len(nodes) or _runs(nodes[place])) for place, need in enumerate(needs)]


def _runs(node: Any) -> bool:
    leaf = not node.next_functions
    return leaf or will_execute(node)
