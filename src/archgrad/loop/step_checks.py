"""Checks in the steps of a search: what a user's own parts return, and that all numbers stay finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import DivergedError, UserError, shortened
from archgrad.loop.state import SearchState
from archgrad.relaxations import Relaxation, Relaxed
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import reads_are_free
from archgrad.tasks import BaseTask

__all__ = [
    "check_all_finite",
    "check_finite",
    "check_instance",
    "check_like",
    "check_loss",
    "check_relaxed",
    "check_state",
    "check_sums",
    "check_tensor",
    "reads_are_due",
]

_SLACK = 1e-3
"""How far from 1 the sum of a row of probabilities may be by rounding."""
_EVERY = 20


def check_instance(part: object, method: str, found: object, kind: type) -> None:
    """Raise a UserError unless a part returned an object of this kind."""
    if not isinstance(found, kind):
        found = f"the text {shortened(found)}" if isinstance(found, str) else found
        raise _wrong(part, method, found, f"an object of type {kind.__name__}")


def check_tensor(part: object, method: str, found: Any, shape: Sequence[int]) -> None:
    """Raise a UserError unless a part returned a tensor of this shape."""
    if not isinstance(found, Tensor) or found.shape != torch.Size(shape):
        raise _wrong(part, method, found, f"a tensor of shape {list(shape)}")


def check_like(
    part: object, method: str, found: Any, like: Mapping[str, Tensor], *, some: bool = False, finite: bool = False
) -> None:
    """Raise a UserError unless a part returned tensors of the names and shapes of ``like``, or ``some`` of them."""
    is_named = isinstance(found, Mapping) and (found.keys() <= like.keys() if some else found.keys() == like.keys())
    if not is_named or not all(
        isinstance(one, Tensor) and one.shape == like[name].shape for name, one in found.items()
    ):
        raise _wrong(part, method, found, f"tensors of these shapes: {_shapes(like)}")
    for name, value in found.items() if finite else ():
        if not bool(torch.isfinite(value).all()):
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


def check_loss(task: BaseTask, loss: Any, outputs: Tensor) -> None:
    """Raise a UserError unless a task returned a loss of one number that depends on the outputs."""
    if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
        kind = f" and type {str(loss.dtype).removeprefix('torch.')}" if isinstance(loss, Tensor) else ""
        raise UserError(
            f"{task.loss_name} returned {_named(loss)}{kind}; it must return a tensor without dimensions, such as the "
            f"mean over the batch."
        )
    if outputs.requires_grad and not loss.requires_grad:
        raise UserError(
            f"{task.loss_name} returned a number that does not depend on the outputs, so the weights cannot learn; "
            f"compute it from the outputs with operations of PyTorch, without detach() or item()."
        )


def _wrong(part: object, method: str, found: Any, expected: str) -> UserError:
    found = found if isinstance(found, str) else _named(found)
    return UserError(f"{type(part).__name__}.{method} returned {found[:200]}; it must return {expected[:200]}.")


def _named(found: Any) -> str:
    """Say what kind of object was returned."""
    if isinstance(found, Tensor):
        return f"a tensor of shape {list(found.shape)}"
    if isinstance(found, Mapping):
        return f"a dictionary with {_shapes(found) or 'nothing'}"
    return "None" if found is None else f"an object of type {type(found).__name__}"


def _shapes(tensors: Mapping[str, Any]) -> str:
    """Name the tensors and their shapes, the first three of them."""
    shown = [
        f"{name!r} {list(value.shape) if isinstance(value, Tensor) else f'of type {type(value).__name__}'}"
        for name, value in list(tensors.items())[:3]
    ]
    return ", ".join([*shown, *(["…"] if len(tensors) > 3 else [])])


def reads_are_due(state: SearchState) -> bool:
    """Tell whether this step checks its numbers: every step on a CPU, else every 20th and the last of an epoch."""
    return reads_are_free(state.device) or not state.step % _EVERY or state.step + 1 == state.steps


def check_finite(
    what: str, value: float | Tensor, state: SearchState, lower: str = "weights.lr or weights.clip", taken: int = 0
) -> None:
    """Raise a DivergedError if numbers of a step are not finite; ``lower`` names the settings that may help.

    The step is the present one, or the last if it is ``taken``.
    """
    if not bool(torch.isfinite(torch.as_tensor(value)).all()):
        found = "not finite" if isinstance(value, Tensor) else value
        raise DivergedError(
            f"{what} became {found} at step {state.step + 1 - taken} of epoch {state.epoch + 1}; lower {lower} and "
            f"start again."
        )


def check_all_finite(what: str, tensors: Mapping[str, Tensor], state: SearchState, lower: str) -> None:
    """Do the same for several tensors, if this step reads numbers."""
    for name, value in tensors.items() if reads_are_due(state) else ():
        check_finite(f"{what} {name!r}", value, state, lower)


def check_state(state: SearchState) -> None:
    """Raise a DivergedError if weights or architecture parameters, or a loss of the epoch, are not finite."""
    for name, total in state.sums.plain().items() if not reads_are_free(state.device) else ():
        if name.endswith("_loss"):
            check_finite(f"the {name.replace('_', ' ')}", total, state, taken=1)
    for kind, values in (("weights", state.weights), ("architecture parameters", state.alpha)):
        for name, value in values.items():
            check_finite(f"the {kind} {name!r}", value, state, taken=1)
