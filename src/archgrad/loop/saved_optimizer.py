"""The state of any optimizer of PyTorch in a checkpoint: checked against a step of that optimizer, then taken over."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import shortened

__all__ = ["load_optimizer", "optimizer_problems"]


def optimizer_problems(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> Iterator[str]:
    """Yield what is wrong with a saved ``state_dict`` of this optimizer.

    A copy of the optimizer takes one step with a gradient of zero, and its state tells the types and shapes. Quantities
    that it lacks after one step must have the shape of the weight, or be one number.
    """
    if [*map(type, saved["param_groups"])] != [dict] * len(optimizer.param_groups):
        yield f"its optimizer does not have {len(optimizer.param_groups)} groups of weights"
    parameters, examples = _parameters(optimizer), _example_states(optimizer) if saved["state"] else []
    for number, state in saved["state"].items():
        if type(number) is not int or not 0 <= number < len(parameters):
            yield f"its optimizer has a state of weight {shortened(number)}, but there are {len(parameters)} weights"
            continue
        for name, value in state.items():
            problem = _problem(value, examples[number].get(name), parameters[number])
            if problem:
                yield f"the state {shortened(name)} of weight {number} in its optimizer {problem}"


def _problem(value: object, example: object, parameter: Tensor) -> str:
    if value is None:
        return ""
    if isinstance(example, Tensor):
        alike = isinstance(value, Tensor) and (value.shape, value.dtype) == (example.shape, example.dtype)
        return "" if alike else f"is not of shape {list(example.shape)} and type {example.dtype}"
    if isinstance(value, Tensor):
        return "" if value.shape in (parameter.shape, ()) else "has another shape than the weight"
    plain = isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value))
    alike = example is None or type(value) is type(example)
    return "" if plain and alike else f"is {shortened(value)}, not a number of the right type"


def load_optimizer(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Take over a checked state, to the bit; ``load_state_dict`` would change the type of whole numbers.

    Numbers in the parameter groups, where some optimizers count their steps, are taken over if they have the same type.
    """
    parameters, examples = _parameters(optimizer), _example_states(optimizer) if saved["state"] else []
    optimizer.state.clear()
    for number, state in saved["state"].items():
        parameter = parameters[number]
        optimizer.state[parameter] = {
            name: value.to(getattr(examples[number].get(name), "device", parameter.device))
            if isinstance(value, Tensor)
            else value
            for name, value in state.items()
        }
    for group, before in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        for name, own in group.items():
            value = before.get(name)
            if type(own) in (int, float) and type(value) is type(own) and math.isfinite(value):
                group[name] = value


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _example_states(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the state of every weight after a step of a copy with a gradient of zero."""
    example = copy.deepcopy(optimizer)
    parameters = _parameters(example)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    example.step()
    return [example.state.get(parameter, {}) for parameter in parameters]
