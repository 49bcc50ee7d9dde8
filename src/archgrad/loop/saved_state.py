"""Checks that a checkpoint holds a state of this search, before the search takes it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import UserError, shortened
from archgrad.loop.metric_sums import COUNTS
from archgrad.loop.saved_optimizer import optimizer_problems

__all__ = ["check_saved"]

_PLAIN = (str, int, float, type(None))


def check_saved(saved: Mapping[str, Any], own: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Raise a UserError if a saved state lacks anything, or has other types or shapes than the search's ``own``."""
    for name in own:
        _need(name in saved, f"it has no {name!r}")
    try:
        _check_position(saved["position"], own["position"])
        for name in ("weights", "alpha", "loss_scale", "average"):
            _check_alike(name, saved[name], own[name])
        for state in ("arch_state", "hypergradient_state"):
            for name, values in saved[state].items():
                tensors = all(isinstance(value, Tensor) for value in values.values())
                _need(tensors, f"its {state} {name!r} has no tensors")
        for problem in optimizer_problems(saved["optimizer"], optimizer):
            _need(False, problem)
        _check_history(saved["history"], saved["position"]["epoch"])
        _check_sums(saved["sums"], saved["seconds"])
        _need(all(type(value) is bool for value in saved["trusted"].values()), "its trusted products are not flags")
        _need(isinstance(saved["stopped"], str | None), "its reason to stop is not a text")
        _need(
            saved["switched"] is None or [*map(type, saved["switched"])] == [int, int], "its switch is not two epochs"
        )
        _need(isinstance(saved["genotype"], str), "its genotype is not a text")
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise _foreign(f"{type(error).__name__}: {shortened(str(error))}") from error


def _need(condition: bool, problem: str) -> None:
    if not condition:
        raise _foreign(problem)


def _foreign(problem: str) -> UserError:
    return UserError(
        f"the checkpoint does not hold a state of this search: {problem}. Start a new search in another folder."
    )


def _check_position(position: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if (position["epochs"], position["steps"]) != (own["epochs"], own["steps"]):
        raise UserError(
            f"the checkpoint is of a search of {shortened(position['epochs'])} epochs of "
            f"{shortened(position['steps'])} steps, this one has {own['epochs']} of {own['steps']}; resume with the "
            f"settings the search was started with."
        )
    for name, most in (("epoch", own["epochs"]), ("step", own["steps"])):
        known = type(position[name]) is int and 0 <= position[name] <= most
        _need(known, f"its {name} is {shortened(position[name])}, which is not from 0 to {most}")


def _check_alike(what: str, saved: Mapping[str, Any], own: Mapping[str, Tensor]) -> None:
    _need(saved.keys() == own.keys(), f"its {what} have other names")
    for name, value in own.items():
        alike = isinstance(saved[name], Tensor) and (saved[name].shape, saved[name].dtype) == (value.shape, value.dtype)
        found = f"{list(saved[name].shape)} of {saved[name].dtype}" if isinstance(saved[name], Tensor) else "no tensor"
        _need(alike, f"its {what} {name!r} has {found}, not {list(value.shape)} of {value.dtype}")


def _check_history(history: Sequence[Mapping[str, Any]], epoch: int) -> None:
    _need(isinstance(history, list) and len(history) == epoch, f"it does not have a record for each of {epoch} epochs")
    for number, record in enumerate(history, start=1):
        values = [*record.keys(), *record.values()]
        _need(record["epoch"] == number and type(record["seconds"]) in (int, float), f"its record {number} is damaged")
        _need(isinstance(record["genotype"], str | None), f"the genotype of its record {number} is not a text")
        _need(all(isinstance(value, _PLAIN) for value in values), f"its record {number} holds more than plain values")


def _check_sums(sums: Mapping[str, Any], seconds: object) -> None:
    _need(all(type(value) in (int, float) for value in (*sums.values(), seconds)), "its sums are not numbers")
    for name in sums:
        kind, _, quantity = name.rpartition("_")
        number = {"loss": "count", **COUNTS}.get(quantity)
        counted = quantity != "total" or f"{kind}_weight" in sums
        counted = counted and (number is None or sums.get(f"{kind}_{number}", 0) > 0)
        _need(counted, f"its sum {shortened(name)} has no count")
