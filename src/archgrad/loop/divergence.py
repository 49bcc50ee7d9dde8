"""Stopping a search whose numbers are no longer finite."""

from __future__ import annotations

import math

import torch

from archgrad.errors import DivergedError
from archgrad.loop.state import SearchState
from archgrad.tensors import Alpha

__all__ = ["check_arch_gradient", "check_finite", "check_state"]


def check_finite(what: str, value: float, state: SearchState) -> None:
    """Raise a DivergedError if a number of the step being taken is not finite."""
    if not math.isfinite(value):
        raise DivergedError(_message(what, value, state.epoch, state.step + 1))


def check_arch_gradient(gradient: Alpha, state: SearchState) -> None:
    """Raise a DivergedError if the gradient of α is not finite."""
    for name, value in gradient.items():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(
                f"the architecture gradient of block {name!r} became not finite at step {state.step + 1} of epoch "
                f"{state.epoch + 1}; lower weights.lr or what scales the hypergradient (its lr, eta), and start again."
            )


def check_state(state: SearchState) -> None:
    """Raise a DivergedError if the last step left weights or architecture parameters that are not finite."""
    for kind, values in (("the weights", state.weights), ("the architecture parameters", state.alpha)):
        for name, value in values.items():
            if not bool(torch.isfinite(value).all()):
                raise DivergedError(_message(f"{kind} {name!r}", "not finite", state.epoch, state.step))


def _message(what: str, value: float | str, epoch: int, step: int) -> str:
    return (
        f"{what} became {value} at step {step} of epoch {epoch + 1}; lower weights.lr or weights.clip and start again."
    )
