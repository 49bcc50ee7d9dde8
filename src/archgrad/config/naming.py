"""From objects to names: the configuration in a run directory, from which anybody can repeat the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archgrad.config.checks import owned_parts
from archgrad.config.resolve import FAMILIES, ResolvedSearch, method_of, space_of, task_of
from archgrad.config.search_config import METHOD_PARTS, SearchConfig
from archgrad.data import Data
from archgrad.data.catalog import absolute_name, find_source
from archgrad.errors import UserError
from archgrad.method.bundle import Method
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS, knobs_of, without_none
from archgrad.parts.serialization import to_data
from archgrad.regularizers import REGULARIZERS
from archgrad.spaces import SPACES, SearchSpace
from archgrad.tasks import TASKS

__all__ = ["config_with", "named_config"]

_EMPTIED = {"space": ("channels", "cells"), "method": METHOD_PARTS}
"""The fields that describe an object further, and are None where it is given itself."""


def named_config(search: ResolvedSearch, images: Data) -> SearchConfig:
    """Write out every default, name every object and make every path absolute.

    A user's own part is named ``module:Name``, with its fields as settings. A space, method or task that cannot be
    built again from its names is listed in ``needs``. A recipe's own rate of α is a setting here as well, so the budget
    that scales it is written as "always". A published search is written out like any other.
    """
    config, space, method, task, training = search.config, search.space, search.method, search.task, search.training
    objects = [name for name in ("space", "method", "task") if not isinstance(getattr(config, name), str)]
    if config.budget == "published" and not config.sets_rate(method):
        config = replace(config, alpha_budget="always")
    config = replace(config, published=False)
    config = _with_names(config, space, method, images)
    parts: dict[str, Any] = {part: getattr(method, part) for part in PARTS}
    parts |= {part: member for part in OPTIONAL_PARTS if (member := getattr(method, part)) is not None}
    parts |= {"weights": training, "space": space, "augmentation": images.augmentation, "task": task}
    parts |= _regularizers_by_name(method) | dict(search.named_callbacks)
    stages = () if method.progressive is None else method.progressive.stages
    depth = None if stages and all(stage.cells for stage in stages) else getattr(space, space.depth_knob)
    sizes: dict[str, Any] = {"channels": space.channels, "cells": depth, "epochs": training.epochs}
    elsewhere = {"space.channels", f"space.{space.depth_knob}", "weights.epochs"}
    knobs = {f"{part}.{knob}": value for part, member in parts.items() for knob, value in _knobs(member).items()}
    kept = {path: without_none(value) for path, value in knobs.items() if path not in elsewhere}
    named = replace(config, **sizes, time_limit=None, weights=None, settings=kept)
    needs = {*named.needs, *(name for name in objects if not _is_named(name, named, search))}
    return _without(needs & {"method", "task"}, replace(named, needs=tuple(sorted(needs))))


def _is_named(part: str, named: SearchConfig, search: ResolvedSearch) -> bool:
    """Tell whether the names and settings of an object build an equal one."""
    try:
        if part == "space":
            return bool(to_data(space_of(named)) == to_data(search.space))
        if part == "task":
            return bool(to_data(task_of(named).described) == to_data(search.task.described))
        built, wanted = (replace(one, weights={}) for one in (method_of(named), search.method))
        return bool(to_data(built) == to_data(wanted))
    except (UserError, TypeError, ValueError):
        return False


def _with_names(config: SearchConfig, space: SearchSpace, method: Method, images: Data) -> SearchConfig:
    """Replace objects by their names."""
    changes: dict[str, Any] = {}
    if not isinstance(config.space, str):
        changes["space"] = _space_name(space)
    if not isinstance(config.method, str):
        names = {part: family.label_of(getattr(method, part)) for part, family in FAMILIES.items()}
        regularizers = ",".join(_regularizers_by_name(method)) or "none"
        changes |= {"method": method.name, **names, "regularizer": regularizers}
    if not isinstance(config.task, str):
        changes["task"] = TASKS.label_of(config.task)
    if isinstance(config.split, tuple):
        changes["split"] = f"{config.split[0]}:{config.split[1]}"
    if isinstance(config.data, str):
        source, _ = find_source(config.data)
        folder = None if source.takes_path else source.located(config.data_dir)
        changes["data"] = absolute_name(config.data)
        changes["data_dir"] = None if folder is None else str(folder.resolve())
    else:
        changes |= _origin(config, images)
    return replace(config, **changes)


def _origin(config: SearchConfig, images: Data) -> dict[str, Any]:
    """Return how to load the images again that were given as an object, or list them in ``needs``."""
    origin = images.origin
    if origin is None or config.limit is not None or config.image_size is not None:
        return {"data": images.name, "needs": ("data",)}  # limited and resized again, as they were
    limit, image_size = origin.options.limit, origin.options.image_size
    if limit is not None and origin.options.seed != config.seed:  # another seed would choose other images
        return {"data": images.name, "needs": ("data",)}
    folder = None if origin.folder is None else str(Path(origin.folder).resolve())
    chosen = {"limit": limit, "image_size": image_size, "resize": origin.options.resize}
    chosen["strict"] = origin.options.strict
    return {"data": absolute_name(origin.spec), "data_dir": folder, **chosen}


def _space_name(space: SearchSpace) -> str:
    own = SPACES.get(space.name)
    return space.name if own is not None and type(own()) is type(space) else SPACES.label_of(space)


def _regularizers_by_name(method: Method) -> dict[str, Any]:
    return {REGULARIZERS.label_of(part): part for part in method.regularizers}


def _knobs(part: Any) -> dict[str, Any]:
    """Return the settings of a part that a file can hold."""
    try:
        knobs = knobs_of(part)
    except TypeError:  # no dataclass
        return {}
    return {name: value for name, value in knobs.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _without(names: Iterable[str], config: SearchConfig) -> SearchConfig:
    """Leave out what describes these objects further: it could not be applied to the objects themselves."""
    parts = {part for name in names for part in owned_parts(name)}
    emptied: dict[str, Any] = dict.fromkeys(one for name in names for one in _EMPTIED.get(name, ()))
    kept = {path: value for path, value in config.settings.items() if path.rpartition(".")[0] not in parts}
    return replace(config, **emptied, settings=kept)


def config_with(config: SearchConfig, given: Mapping[str, Any]) -> SearchConfig:
    """Replace names in a run's configuration by the given objects; reject it if a needed one is missing."""
    missing = [name for name in config.needs if name not in given]
    if missing:
        wanted = ", ".join(f"{name}=…" for name in missing)
        raise UserError(
            f"this run was searched with {' and '.join(missing)} that cannot be named in a file; give them again in "
            f"Python: archgrad.resume(DIR, {wanted}) or archgrad.SearchResult.load(DIR, {wanted})."
        )
    return replace(_without(given, config), **given, needs=())
