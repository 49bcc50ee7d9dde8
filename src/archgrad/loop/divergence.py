"""Stopping a search whose numbers are no longer finite."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any

import torch

from archgrad.autodiff.tensors import Alpha
from archgrad.errors import DivergedError
from archgrad.hypergradients import Hypergradient
from archgrad.loop.state import SearchState
from archgrad.method.bundle import Method
from archgrad.parts.knobs import knobs_of
from archgrad.regularizers import name_of
from archgrad.system.devices import reads_are_free
from archgrad.training.weight_training import WeightTraining

__all__ = ["check_alpha", "check_arch_gradient", "check_finite", "check_state", "reads_are_due", "with_likely_cause"]

_EVERY = 20
_KNOBS = "weights.lr or weights.clip"
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


def _message(what: str, value: float | str, epoch: int, step: int, knobs: str = _KNOBS) -> str:
    return f"{what} became {value} at step {step} of epoch {epoch + 1}; lower {knobs} and start again."
