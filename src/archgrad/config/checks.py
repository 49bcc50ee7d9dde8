"""What a configuration may say: kinds of objects, names of parts, and what may not stand beside a published search."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS
from archgrad.parts.registry import class_path

if TYPE_CHECKING:
    from archgrad.config.search_config import SearchConfig

__all__ = ["PAPER", "SETTABLE", "check_config", "owned_parts"]

SETTABLE = (*PARTS, *OPTIONAL_PARTS, "weights", "space", "augmentation", "task")
"""The parts of every search whose knobs are settings, beside its regularizers and callbacks."""
PAPER = "published is True (--published), which takes all sizes and settings from the paper"


def check_config(config: SearchConfig) -> None:
    """Reject what the types and ranges of the fields do not tell."""
    _check_objects(config)
    named = {one.name: getattr(config, one.name) for one in fields(config)} | dict(config.settings)
    for name, value in named.items():
        _check_encodable(name, value)
    if config.published:
        _check_published(config)
    for path in config.settings:
        part, dot, knob = path.rpartition(".")
        if not dot or not knob:
            raise UserError(
                f"the setting {shortened(path)} does not name a knob; write part.knob, such as arch_optimizer.lr."
            )
        if part not in SETTABLE and ":" not in part:
            _check_member(part)


def _check_objects(config: SearchConfig) -> None:
    """Reject anything but names and objects of the right kind for space, method, data, task and weights."""
    names = ("space", "method", "data", "task", "weights")
    given = {name: getattr(config, name) for name in names if name != "weights" or config.weights is not None}
    objects = {name: value for name, value in given.items() if name == "weights" or not isinstance(value, str)}
    if not objects:
        return  # without PyTorch, for a fast command
    from archgrad.data import Data
    from archgrad.method.bundle import Method
    from archgrad.spaces import SearchSpace
    from archgrad.tasks import BaseTask
    from archgrad.training.weight_training import WeightTraining

    kinds = dict(zip(names, (SearchSpace, Method, Data, BaseTask, WeightTraining), strict=True))
    for name, value in objects.items():
        if not isinstance(value, kinds[name]):
            named = "" if name == "weights" else "a name (see `archgrad list`) or "
            example = ", such as archgrad.Task(loss)" if name == "task" else ""
            raise UserError(
                f"{name} is {shortened(value)}; it must be {named}an object of {class_path(kinds[name])}{example}."
            )


def _check_encodable(name: str, value: object) -> None:
    """Reject text with bytes that are not UTF-8: a run directory could not write it down."""
    for text in (name, value):
        if isinstance(text, str) and not text.isprintable() and any("\ud800" <= one <= "\udfff" for one in text):
            raise UserError(f"{shortened(name)} is {shortened(value)}, which is not valid UTF-8; use another name.")


def _check_published(config: SearchConfig) -> None:
    """Reject whatever would change the published search; settings of callbacks change nothing."""
    for one in fields(config):
        allowed = one.metadata.get("published")
        if allowed is not None and (value := getattr(config, one.name)) not in allowed:
            words = "" if None in allowed else f": {' or '.join(map(str, allowed))}"
            raise UserError(f"{one.name} is {shortened(value)}, but {PAPER}{words}; leave one of the two out.")
    from archgrad.callbacks import CALLBACKS

    for path in config.settings:
        if path.rpartition(".")[0] not in CALLBACKS:
            raise UserError(f"the setting {shortened(path)} is given, but {PAPER}; leave one of the two out.")


def _check_member(part: str) -> None:
    """Reject a setting whose part is not the name of a regularizer or a callback."""
    from archgrad.callbacks import CALLBACKS
    from archgrad.regularizers import REGULARIZERS

    if part not in REGULARIZERS and part not in CALLBACKS:
        raise unknown("part in a setting:", part, (*SETTABLE, *REGULARIZERS, *CALLBACKS))


def owned_parts(name: str) -> set[str]:
    """Return the parts whose settings go with the object or the name in a field: with another one they do not fit."""
    from archgrad.regularizers import REGULARIZERS

    of_method = {*PARTS, *OPTIONAL_PARTS, *REGULARIZERS}
    owned = {"method": of_method, "regularizer": {*REGULARIZERS}, "data": {"augmentation"}}
    return owned.get(name, {name})
