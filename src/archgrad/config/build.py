"""From a configuration to objects: the space, the method, the callbacks, the weight training and the images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from archgrad import callbacks, data, recipes
from archgrad.arch_optimizers import ARCH_OPTIMIZERS
from archgrad.callbacks import CALLBACKS, Callback
from archgrad.config.search_config import SETTABLE, SearchConfig
from archgrad.data import Augmentation, Data, catalog
from archgrad.discretizers import DISCRETIZERS
from archgrad.errors import UserError
from archgrad.hypergradients import HYPERGRADIENTS
from archgrad.method.bundle import Method
from archgrad.method.progressive import Progressive
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS, with_settings
from archgrad.parts.registry import Registry
from archgrad.regularizers import REGULARIZERS, Regularizer
from archgrad.relaxations import RELAXATIONS
from archgrad.spaces import SPACES, SearchSpace
from archgrad.tasks import TASKS, BaseTask
from archgrad.training.weight_training import WeightTraining

__all__ = [
    "FAMILIES",
    "build_method",
    "build_space",
    "build_task",
    "build_training",
    "check_data",
    "load_data",
    "named_callbacks",
]

FAMILIES: dict[str, Registry[Any]] = {
    "relaxation": RELAXATIONS,
    "hypergradient": HYPERGRADIENTS,
    "arch_optimizer": ARCH_OPTIMIZERS,
    "discretizer": DISCRETIZERS,
}
"""The families of which a method must have one member each, by the names of its fields."""

_PUBLISHED_SIZE = 32
"""The side of the images that published augmentations are for."""


def build_space(config: SearchConfig) -> SearchSpace:
    """Return the space at the configured size, or at the size that the method was published with."""
    if isinstance(config.space, str):
        space = SPACES.create(config.space)
        space = replace(space, **({} if config.recipe is None else recipes.sized(config.recipe, space)))
    else:
        space = config.space
    sizes: dict[str, Any] = {"channels": config.channels, space.depth_knob: config.cells}
    space = replace(space, **{name: size for name, size in sizes.items() if size is not None})
    return with_settings(space, config.settings_of("space"), "space")


def build_task(config: SearchConfig) -> BaseTask:
    """Return the task with its settings."""
    task = TASKS.create(config.task) if isinstance(config.task, str) else config.task
    return with_settings(task, config.settings_of("task"), "task")


def build_method(config: SearchConfig) -> Method:
    """Return the method with the named parts and the settings.

    The learning rate of an architecture optimizer that is named counts as a recipe's own, until a setting changes it.
    """
    named = {part: family.create(name) for part, family in FAMILIES.items() if (name := getattr(config, part))}
    method = _base_method(config, named)
    recipes_own = "arch_optimizer" in named or method.arch_optimizer is method.recipe_optimizer
    parts: dict[str, Any] = {part: getattr(method, part) for part in PARTS} | named
    parts = {part: with_settings(parts[part], config.settings_of(part), part) for part in PARTS}
    parts["recipe_optimizer"] = parts["arch_optimizer"] if recipes_own else None
    method = replace(method, progressive=_at_depth(config, method.progressive))
    parts |= {part: _optional_part(config, part, method) for part in OPTIONAL_PARTS}
    return replace(method, **parts, regularizers=_regularizers(config, method))


def _base_method(config: SearchConfig, named: Mapping[str, Any]) -> Method:
    """Return the method before settings: an object, a recipe, or parts that are all named."""
    if not isinstance(config.method, str):
        return config.method
    if config.recipe is None and len(named) == len(FAMILIES):
        return Method(**named, name=config.method)
    return recipes.named(config.method, config.space)


def _at_depth(config: SearchConfig, stages: Progressive | None) -> Progressive | None:
    """Give all stages the configured depth; reject it if every stage was set to its own."""
    if stages is None or config.cells is None or not all(stage.cells for stage in stages.stages):
        return stages
    if "progressive.cells" not in config.settings:
        return with_settings(stages, {"cells": "none"}, "progressive")
    given = with_settings(stages, config.settings_of("progressive"), "progressive").stages
    if all(stage.cells for stage in given):
        own = ", ".join(str(stage.cells) for stage in given)
        raise UserError(
            f"cells is {config.cells}, but stages have their own, {own}; leave it out, or set progressive.cells=none."
        )
    return stages


def _optional_part(config: SearchConfig, part: str, method: Method) -> Any:
    """Return an optional part of the method with its settings; reject settings of a part that it lacks."""
    member, settings = getattr(method, part), config.settings_of(part)
    if member is not None:
        return with_settings(member, settings, part)
    for knob in settings:
        raise UserError(
            f"{part}.{knob} cannot be set: the method {config.method!r} has no {part}; `archgrad list methods` "
            f"shows which have one."
        )
    return None


def _regularizers(config: SearchConfig, method: Method) -> tuple[Regularizer, ...]:
    """Return the regularizers of the search with their settings."""
    chosen = method.regularizers if config.regularizer is None else _named_regularizers(config.regularizer, method)
    own = [(_regularizer_name(regularizer), regularizer) for regularizer in chosen]
    others = {name for name, _ in own} | {*SETTABLE, *CALLBACKS, *_callback_names(config)}
    for part in {path.rpartition(".")[0] for path in config.settings} - others:
        raise UserError(f"{part} cannot be set: this search has no such regularizer; add --regularizer +{part}.")
    return tuple(
        regularizer if name is None else with_settings(regularizer, config.settings_of(name), name)
        for name, regularizer in own
    )


def _named_regularizers(listed: str, method: Method) -> tuple[Regularizer, ...]:
    """Return the named regularizers; names that begin with a plus add to the method's own."""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    added = [name.removeprefix("+").strip() for name in names if name.startswith("+")]
    if added and len(added) < len(names):
        raise UserError(
            f"regularizer is {listed!r}, which both adds to the method's regularizers and replaces them; "
            f"write a plus before every name, to add, or before none, to replace."
        )
    if added:
        return (*method.regularizers, *map(REGULARIZERS.create, added))
    return () if names == ["none"] else tuple(map(REGULARIZERS.create, names))


def _regularizer_name(regularizer: Regularizer) -> str | None:
    try:
        return REGULARIZERS.name_of(regularizer)
    except UserError:  # a class that cannot be imported by name: it comes with its settings
        return None


def named_callbacks(config: SearchConfig) -> dict[str, Callback]:
    """Return the callbacks by the names that the configuration gives them, with their settings."""
    names = _callback_names(config)
    for part in {path.rpartition(".")[0] for path in config.settings} & set(CALLBACKS) - set(names):
        raise UserError(f"{part} cannot be set: this search does not name that callback; add --callback {part}.")
    return {name: with_settings(callbacks.CALLBACKS.create(name), config.settings_of(name), name) for name in names}


def _callback_names(config: SearchConfig) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in (config.callback or "").split(",") if name.strip()))


def build_training(config: SearchConfig, space: SearchSpace, method: Method) -> WeightTraining:
    """Return the weight-training settings: the space's, then the method's, then the user's."""
    chosen = {"epochs": config.epochs, "batch_size": config.batch_size}
    given = {name: value for name, value in chosen.items() if value is not None}
    base = method.trained(space.weights) if config.weights is None else config.weights
    return with_settings(base, {**config.settings_of("weights"), **given}, "weights")


def check_data(config: SearchConfig) -> None:
    """Reject unknown data, a path without data, and wrong options, before anything is read."""
    data.LoadOptions(True, config.limit, config.image_size, config.resize)
    if isinstance(config.data, str):
        catalog.check_data(config.data, config.data_dir)


def load_data(config: SearchConfig, progress: Callable[[int, int], None] | None = None) -> Data:
    """Load the images; ``progress(done, total)`` is told how many are read."""
    if isinstance(config.data, str):
        images = data.load(
            config.data, data_dir=config.data_dir, limit=config.limit, image_size=config.image_size,
            resize=config.resize, seed=config.seed, progress=progress or data.no_progress,
        )  # fmt: skip
        augmentation = _published_augmentation(config, images)
    else:
        options = data.LoadOptions(True, config.limit, config.image_size, config.resize, config.seed)
        images = options.apply(config.data)
        augmentation = _published_augmentation(config, images) if config.published else images.augmentation
    settings = config.settings_of("augmentation")
    return images.with_fields(augmentation=with_settings(augmentation, settings, "augmentation"))


def _published_augmentation(config: SearchConfig, images: Data) -> Augmentation:
    """Return the augmentation of the data with what the method was published with, scaled from 32 pixels."""
    declared = {} if config.recipe is None else recipes.declared(config.recipe, config.space)
    own = {
        path.removeprefix("augmentation."): setting.value
        for path, setting in declared.items()
        if path.startswith("augmentation.")
    }
    published = replace(images.augmentation, **own).scaled(_PUBLISHED_SIZE, images.image_size) if own else None
    changes = {name: getattr(published, name) for name in own}
    return replace(images.augmentation, **changes)
