"""Checks of what the parts of a search return: a user's own part that is wrong is named, with what was expected.

Shapes are compared in every step, which costs microseconds. Whatever takes longer is checked in the first step only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.errors import UserError, shortened
from archgrad.relaxations import Relaxation, Relaxed
from archgrad.spaces import DecisionBlock
from archgrad.supernet import MixedCell
from archgrad.tasks import BaseTask

__all__ = [
    "check_first_pass",
    "check_instance",
    "check_like",
    "check_loss",
    "check_relaxed",
    "check_scalar",
    "check_sums",
]

_SLACK = 1e-3
"""How far from 1 the sum of a row of probabilities may be by rounding."""


def check_instance(part: object, method: str, found: object, kind: type) -> None:
    """Raise a UserError unless a part returned an object of this kind."""
    if not isinstance(found, kind):
        found = f"the text {shortened(found)}" if isinstance(found, str) else found
        raise _wrong(part, method, found, f"an object of type {kind.__name__}")


def check_like(
    part: object, method: str, found: Any, like: Mapping[str, Tensor], *, some: bool = False, finite: bool = False
) -> None:
    """Raise a UserError unless a part returned tensors of the names and shapes of ``like``, or ``some`` of them."""

    def wrong() -> UserError:
        return _wrong(part, method, found, f"tensors of these shapes: {_shapes(like)}")

    if not isinstance(found, Mapping) or not (found.keys() <= like.keys() if some else found.keys() == like.keys()):
        raise wrong()
    for name, value in found.items():
        if not isinstance(value, Tensor) or value.shape != like[name].shape:
            raise wrong()
        if finite and not bool(torch.isfinite(value).all()):
            raise _wrong(part, method, f"numbers in {name!r} that are not finite", "finite numbers")


def check_sums(part: Relaxation, probabilities: Mapping[str, Tensor]) -> None:
    """Raise a UserError if a relaxation is said to be on the simplex, but its rows do not sum to one."""
    for name, rows in probabilities.items() if part.on_simplex else ():
        furthest = rows.sum(-1).sub(1).abs().max().item()
        if furthest > _SLACK:
            found = f"rows in {name!r} whose sums are up to {furthest:.3g} away from 1"
            raise _wrong(part, "probabilities", found, "rows that sum to one, or declare on_simplex = False")


def check_relaxed(part: Relaxation, blocks: Sequence[DecisionBlock], alpha: Mapping[str, Tensor], found: Any) -> None:
    """Raise a UserError unless a relaxation returned a weight for every choice in every cell, differentiable in α."""
    check_instance(part, "relax", found, Relaxed)
    for block in blocks:
        weights, shape = found.mixture.get(block.name), (block.cells, *block.shape)
        if not isinstance(weights, Tensor) or (*weights.shape[:1], *weights.shape[-2:]) != shape:
            wanted = f"a mixture {{block: [cells, rows, choices]}}, here {block.name!r}: {list(shape)}"
            raise _wrong(part, "relax", found.mixture, wanted)
    moving = part.learns and torch.is_grad_enabled() and any(value.requires_grad for value in alpha.values())
    if moving and not any(weights.requires_grad for weights in found.mixture.values()):
        raise _wrong(part, "relax", "a mixture without gradient", "one that is differentiable in α")


def check_scalar(part: object, method: str, found: Any) -> None:
    """Raise a UserError unless a part returned a tensor of one number."""
    if not isinstance(found, Tensor) or found.dim():
        raise _wrong(part, method, found, "None or a tensor without dimensions")


def check_loss(task: BaseTask, loss: Any, outputs: Tensor) -> None:
    """Raise a UserError unless a task returned a loss of one number that depends on the outputs."""
    expected = "it must return a tensor without dimensions, such as the mean over the batch"
    if not isinstance(loss, Tensor):
        raise UserError(f"{task.loss_name} returned {_kind(loss)}; {expected}.")
    if loss.dim() or not loss.is_floating_point():
        kind = str(loss.dtype).removeprefix("torch.")
        raise UserError(f"{task.loss_name} returned a tensor of shape {list(loss.shape)} and type {kind}; {expected}.")
    if outputs.requires_grad and not loss.requires_grad:
        raise UserError(
            f"{task.loss_name} returned a number that does not depend on the outputs, so the weights cannot learn; "
            f"compute it from the outputs with operations of PyTorch, without detach() or item()."
        )


@contextmanager
def check_first_pass(supernet: nn.Module, outputs: int) -> Iterator[None]:
    """Check the outputs of all operations and of the supernet inside the block."""
    strides: dict[nn.Module, int] = {
        operation: edge.stride
        for cell in supernet.modules()
        if isinstance(cell, MixedCell)
        for edge in cell.connections
        for operation in edge.operations
    }

    def check_operation(operation: nn.Module, given: tuple[Any, ...], found: Any) -> None:
        x, stride = given[0], strides[operation]
        shape = [*x.shape[:2], *(-(-size // stride) for size in x.shape[2:])]
        _check_shape(operation, found, shape)
        if bool(torch.isfinite(x).all()) and not bool(torch.isfinite(found).all()):
            raise _wrong(operation, "forward", "numbers that are not finite", "finite numbers for finite ones")
        trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in operation.parameters())
        if trained and not found.requires_grad:
            raise _wrong(operation, "forward", "a tensor without gradient", "one that is differentiable in its weights")

    def check_outputs(network: nn.Module, given: tuple[Any, ...], found: Any) -> None:
        for one in found if isinstance(found, tuple) else (found,):
            _check_shape(network, one, [len(given[0]), outputs])

    handles = [operation.register_forward_hook(check_operation) for operation in strides]
    handles.append(supernet.register_forward_hook(check_outputs))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _check_shape(module: nn.Module, found: Any, shape: list[int]) -> None:
    if not isinstance(found, Tensor) or list(found.shape) != shape:
        raise _wrong(module, "forward", found, f"a tensor of shape {shape}")


def _wrong(part: object, method: str, found: Any, expected: str) -> UserError:
    if isinstance(found, Tensor):
        found = f"a tensor of shape {list(found.shape)}"
    elif isinstance(found, Mapping):
        found = f"a dictionary with {_shapes(found) or 'nothing'}"
    elif not isinstance(found, str):
        found = _kind(found)
    return UserError(f"{type(part).__name__}.{method} returned {found[:200]}; it must return {expected[:200]}.")


def _kind(found: Any) -> str:
    return "None" if found is None else f"an object of type {type(found).__name__}"


def _shapes(tensors: Mapping[str, Any]) -> str:
    """Name the tensors and their shapes, the first three of them."""
    shown = [
        f"{name!r} {list(value.shape) if isinstance(value, Tensor) else f'of type {type(value).__name__}'}"
        for name, value in list(tensors.items())[:3]
    ]
    return ", ".join([*shown, *(["…"] if len(tensors) > 3 else [])])
