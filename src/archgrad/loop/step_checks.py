"""Checks in the steps of a search: what its parts return, and that its numbers stay finite.

A user's own part that is wrong is named, with what was expected. Shapes are compared in every step, which costs
microseconds. Whatever takes longer is checked in the first step only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.autodiff.tensors import Alpha
from archgrad.errors import DivergedError, UserError, shortened
from archgrad.hypergradients import Hypergradient
from archgrad.loop.state import SearchState
from archgrad.method.bundle import Method
from archgrad.parts.knobs import knobs_of
from archgrad.regularizers import name_of
from archgrad.relaxations import Relaxation, Relaxed
from archgrad.spaces import DecisionBlock
from archgrad.supernet import MixedCell
from archgrad.system.devices import reads_are_free
from archgrad.tasks import BaseTask
from archgrad.training.weight_training import WeightTraining

__all__ = [
    "check_alpha",
    "check_arch_gradient",
    "check_finite",
    "check_first_pass",
    "check_instance",
    "check_like",
    "check_loss",
    "check_relaxed",
    "check_scalar",
    "check_state",
    "check_sums",
    "reads_are_due",
    "with_likely_cause",
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


_EVERY = 20
_SUSPICIOUS = 200.0
"""A knob that is so many times its default is named as the cause; a short search multiplies α's rate by up to 125."""


def reads_are_due(state: SearchState) -> bool:
    """Tell whether this step checks its numbers: every step on a CPU, else every 20th and the last of an epoch."""
    return reads_are_free(state.device) or not state.step % _EVERY or state.step + 1 == state.steps


def check_finite(what: str, value: float, state: SearchState) -> None:
    """Raise a DivergedError if a number of the step being taken is not finite."""
    if not math.isfinite(value):
        raise DivergedError(_message(what, value, state.epoch, state.step + 1))


def check_arch_gradient(gradient: Alpha, hypergradient: Hypergradient, state: SearchState) -> None:
    """Raise a DivergedError if the gradient of α is not finite."""
    for name, value in gradient.items() if reads_are_due(state) else ():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(
                f"the architecture gradient of block {name!r}, by {type(hypergradient).__name__}, became not finite at "
                f"step {state.step + 1} of epoch {state.epoch + 1}; lower weights.lr or what scales the hypergradient "
                f"(its lr, eta), and start again."
            )


def check_alpha(alpha: Alpha, where: str, state: SearchState) -> None:
    """Raise a DivergedError if architecture parameters are not finite."""
    for name, value in alpha.items() if reads_are_due(state) else ():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(
                f"the architecture parameters {name!r} became not finite {where}, step {state.step + 1} of epoch "
                f"{state.epoch + 1}; lower its learning rate (arch_optimizer.lr, --alpha-budget), and start again."
            )


def check_state(state: SearchState) -> None:
    """Raise a DivergedError if weights or architecture parameters, or a loss of the epoch, are not finite."""
    for name, total in state.sums.plain().items() if not reads_are_free(state.device) else ():
        if name.endswith("_loss"):
            check_finite(f"the {name.replace('_', ' ')}", total, state)
    for kind, values in (("weights", state.weights), ("architecture parameters", state.alpha)):
        for name, value in values.items():
            if not bool(torch.isfinite(value).all()):
                raise DivergedError(_message(f"the {kind} {name!r}", "not finite", state.epoch, state.step))


def with_likely_cause(error: DivergedError, method: Method, weights: WeightTraining, usual: WeightTraining) -> str:
    """Return the message of a divergence; if a knob is far above its default, advise to lower that one.

    ``usual`` are the weight-training settings of the space.
    """
    parts: dict[str, tuple[Any, Any]] = {"weights": (weights, usual)}
    own: dict[str, Any] = {"arch_optimizer": method.arch_optimizer, "hypergradient": method.hypergradient}
    own |= {name_of(part) or type(part).__name__: part for part in method.regularizers}
    for name, part in own.items():
        with suppress(TypeError):  # a user's own part, which may need arguments
            parts[name] = part, type(part)()
    factors = {f"{name}.{knob}": one for name, pair in parts.items() for knob, one in _factors(*pair).items()}
    likely = max(factors, key=lambda knob: factors[knob], default="")
    if not likely or factors[likely] < _SUSPICIOUS:
        return str(error)
    what = str(error).partition(";")[0]
    return f"{what}; {likely} is {factors[likely]:.2g} times its default: lower it and start again."


def _factors(part: Any, usual: Any) -> dict[str, float]:
    """Return by how much the numbers of a part are above its defaults."""
    if not is_dataclass(part):
        return {}
    defaults = knobs_of(usual)
    return {
        knob: value / defaults[knob]
        for knob, value in knobs_of(part).items()
        if isinstance(value, float) and isinstance(defaults[knob], int | float) and defaults[knob] > 0
    }


def _message(what: str, value: float | str, epoch: int, step: int) -> str:
    when = f"step {step} of epoch {epoch + 1}"
    return f"{what} became {value} at {when}; lower weights.lr or weights.clip and start again."
