"""Optimizers of PyTorch by name, or a user's own, with settings as texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.registry import import_part, import_path

__all__ = ["OptimizerFactory", "find_optimizer", "make_optimizer", "optimizer_name", "read_settings", "try_optimizer"]

OptimizerFactory = Callable[..., Any]
"""(parameters, lr=…, weight_decay=…, further settings) → an optimizer."""


def find_optimizer(name: str) -> OptimizerFactory:
    """Return an optimizer of ``torch.optim`` by its name in any case, or what ``module:Name`` imports.

    >>> find_optimizer("adamw") is find_optimizer("AdamW") is torch.optim.AdamW
    True
    """
    if ":" in name:
        found: OptimizerFactory = import_part(name)
        return found
    members = _members()
    if name.lower() not in members:
        raise unknown("name of an optimizer in torch.optim:", name, sorted(members))
    return members[name.lower()]


def optimizer_name(given: object) -> object:
    """Return the name by which a class or a function can be found again; anything else stays as it is.

    >>> optimizer_name(torch.optim.RMSprop), optimizer_name("AdamW")
    ('rmsprop', 'adamw')
    """
    if isinstance(given, str) and ":" not in given:
        return given.lower()
    if not isinstance(given, type | FunctionType):
        return given
    name = given.__name__.lower()
    if _members().get(name) is given:
        return name
    try:
        return import_path(given)  # type: ignore[arg-type]
    except UserError:  # it was defined in a script or in a function
        return given


def _members() -> dict[str, type[torch.optim.Optimizer]]:
    kinds = [one for one in vars(torch.optim).values() if isinstance(one, type)]
    return {
        one.__name__.lower(): one
        for one in kinds
        if issubclass(one, torch.optim.Optimizer) and one is not torch.optim.Optimizer
    }


def read_settings(texts: Sequence[str], where: str) -> dict[str, Any]:
    """Read ``name=value`` texts; a value is a number, true, false, none or a word. A text without a name continues it.

    >>> read_settings(("betas=0.9", "0.95", "amsgrad=true"), "weights.optimizer_settings")
    {'betas': (0.9, 0.95), 'amsgrad': True}
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name:
            found[name] = [_value(value)]
        elif found and not equals:
            found[next(reversed(found))].append(_value(text))
        else:
            raise UserError(f"{where} has {shortened(text)}; write name=value, such as momentum=0.9.")
    return {name: tuple(values) if len(values) > 1 else values[0] for name, values in found.items()}


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def make_optimizer(
    make: OptimizerFactory, parameters: Iterable[Tensor], lr: float, weight_decay: float, settings: dict[str, Any]
) -> torch.optim.Optimizer:
    """Make an optimizer, with the weight decay if it takes one; raise a TypeError if it makes something else."""
    taken = inspect.signature(make).parameters.values()
    decays = any(one.name == "weight_decay" or one.kind is one.VAR_KEYWORD for one in taken)
    made = make(parameters, lr=lr, **({"weight_decay": weight_decay} if decays else {}), **settings)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"it makes an object of type {type(made).__name__}, not an optimizer of PyTorch")
    if any("lr" not in group for group in made.param_groups):
        raise TypeError("its parameter groups have no lr")
    return made


def try_optimizer(make: Callable[[list[Tensor]], torch.optim.Optimizer], decays: bool) -> None:
    """Take a step with an example; raise a TypeError if the optimizer needs more, or lacks a wanted weight decay."""
    example = torch.zeros(2, 2, requires_grad=True)
    optimizer = make([example])
    example.grad = torch.ones_like(example)
    try:
        optimizer.step()
    except TypeError as error:
        if "closure" not in str(error):
            raise
        raise TypeError("it needs a function that evaluates the loss again (a closure)") from error
    for name, value in optimizer.state[example].items():
        if not isinstance(value, Tensor | Number | str | None):
            raise TypeError(f"its state {name!r} is of type {type(value).__name__}, which a checkpoint cannot hold")
    if decays and any("weight_decay" not in group for group in optimizer.param_groups):
        raise TypeError("it has no weight decay; set weights.weight_decay=0 and no weights.weight_decay_end")
