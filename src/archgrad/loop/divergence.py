"""Stopping a search whose numbers are no longer finite."""

from __future__ import annotations

import math

import torch

from archgrad.errors import DivergedError
from archgrad.hypergradients import Hypergradient
from archgrad.loop.state import SearchState
from archgrad.tensors import Alpha

__all__ = ["check_alpha", "check_arch_gradient", "check_finite", "check_state"]


def check_finite(what: str, value: float, state: SearchState) -> None:
    """Raise a DivergedError if a number of the step being taken is not finite."""
    if not math.isfinite(value):
        raise DivergedError(_message(what, value, state.epoch, state.step + 1))


def check_arch_gradient(gradient: Alpha, hypergradient: Hypergradient, state: SearchState) -> None:
    """Raise a DivergedError if the gradient of α is not finite."""
    for name, value in gradient.items():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(
                f"the architecture gradient of block {name!r}, by {type(hypergradient).__name__}, became not finite at "
                f"step {state.step + 1} of epoch {state.epoch + 1}; lower weights.lr or what scales the hypergradient "
                f"(its lr, eta), and start again."
            )


def check_alpha(alpha: Alpha, where: str, state: SearchState) -> None:
    """Raise a DivergedError if architecture parameters are not finite."""
    for name, value in alpha.items():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(
                f"the architecture parameters {name!r} became not finite {where}, step {state.step + 1} of epoch "
                f"{state.epoch + 1}; lower its learning rate (arch_optimizer.lr, --alpha-budget), and start again."
            )


def check_state(state: SearchState) -> None:
    """Raise a DivergedError if the last step left weights that are not finite; α is checked in every step."""
    for name, value in state.weights.items():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(_message(f"the weights {name!r}", "not finite", state.epoch, state.step))


def _message(what: str, value: float | str, epoch: int, step: int) -> str:
    return (
        f"{what} became {value} at step {step} of epoch {epoch + 1}; lower weights.lr or weights.clip and start again."
    )
