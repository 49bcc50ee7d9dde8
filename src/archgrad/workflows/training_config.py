"""From an architecture and a preset to the configuration of its training."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from archgrad.arch_optimizers import Fixed
from archgrad.config import SearchConfig
from archgrad.config.search_config import SETTABLE
from archgrad.data import Data
from archgrad.discretizers import Argmax
from archgrad.errors import UserError, look_up, shortened, unknown
from archgrad.hypergradients import FirstOrder
from archgrad.method.bundle import Method
from archgrad.parts.registry import import_path
from archgrad.relaxations import Softmax
from archgrad.spaces import RESNET, Genotype, ResNet, SearchSpace, known_cells, named_space
from archgrad.supernet import SupernetOptions
from archgrad.tasks.classification import TOP
from archgrad.training.schedule import Schedule
from archgrad.workflows.presets import PRESETS, Preset
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.time_plan import fitting_epochs

__all__ = ["as_genotype", "training_config", "with_epochs", "with_published_cutout", "with_top5"]

_NOT_FOR_TRAINING = (
    "space", "method", "relaxation", "hypergradient", "arch_optimizer", "regularizer", "discretizer", "split",
    "on_collapse", "alpha_budget", "oracle", "checkpoint_cells", "needs", "published",
)  # fmt: skip
_PUBLISHED_SIZE = 32
_SIZES = ("channels", "cells", "stem")
_TRAINED_PARTS = ("weights", "supernet", "augmentation", "task")


def as_genotype(given: Genotype | str) -> Genotype:
    """Return a genotype from an object, its text, or the name of a well-known cell.

    >>> as_genotype("darts-v2") == known_cells()["darts-v2"].genotype
    True
    """
    if isinstance(given, Genotype):
        return given
    if not isinstance(given, str):
        raise UserError(f"the genotype is {shortened(given)}; give a Genotype, its text, or a well-known name.")
    if given == ResNet.name:
        return RESNET
    return known_cells()[given].genotype if given in known_cells() else Genotype.parse(given)


def training_config(
    space: SearchSpace | str,
    genotype: Genotype | str,
    data: Data | str,
    preset: str = "quick",
    start_from: str | None = None,
    **options: Any,
) -> SearchConfig:
    """Return the configuration of a training; ``options`` are ``stem`` and fields of :class:`SearchConfig`.

    A space by its name gets the size of the preset, and a space object keeps its own.
    """
    chosen = look_up("preset", preset, PRESETS)
    known = [one.name for one in fields(SearchConfig) if one.name not in (*_NOT_FOR_TRAINING, "data")]
    for name in options:
        if name not in (*known, "stem"):
            raise unknown("option of a training:", name, (*known, "stem"))
    sizes = {name: value for name in _SIZES if (value := options.pop(name, None)) is not None}
    network = _network(space, as_genotype(genotype), chosen, sizes, start_from)
    options = {name: one for name, one in options.items() if one is not None}
    smoothing = {"task.label_smoothing": chosen.label_smoothing}
    given = _checked_settings(options.pop("settings", {}))
    given = {**smoothing, **given} if options.get("task", "classification") == "classification" else given
    options = {"weights": chosen.weights} | options
    return SearchConfig(
        space=network, method=_method(chosen, network), data=data, on_collapse="ignore", alpha_budget="off",
        oracle="none", settings=given, **options,
    )  # fmt: skip


def _checked_settings(given: Any) -> Mapping[str, Any]:
    """Return the knobs by path; reject those of parts that only a search has."""
    if not isinstance(given, Mapping):
        raise UserError(f"settings is {shortened(given)}; it must be a dictionary of knobs by path.")
    for path in given:
        part = str(path).rpartition(".")[0]
        if part == "space":
            raise UserError(f"the setting {shortened(path)} is for searches; give channels, cells or stem instead.")
        if part in SETTABLE and part not in _TRAINED_PARTS:
            raise UserError(
                f"the setting {shortened(path)} is for searches; a training has knobs of {', '.join(_TRAINED_PARTS)}."
            )
    return given


def _network(
    space: SearchSpace | str, genotype: Genotype, preset: Preset, sizes: Mapping[str, Any], start_from: str | None
) -> SingleArchitecture:
    base = replace(named_space(space) if isinstance(space, str) else space, restriction=None)
    own = {"cells" if name == base.depth_knob else name: value for name, value in _own_sizes(base).items()}
    size: dict[str, Any] = {**(preset.sizes_of(base) if isinstance(space, str) else own), **sizes}
    network = SingleArchitecture(of=_name(base), architecture=str(genotype), start_from=start_from or "", **size)
    network.base.check(genotype)
    return network


def _name(base: SearchSpace) -> str | SearchSpace:
    """Return the name from which this space can be built again at its size, or the space itself."""
    with suppress(UserError, TypeError):
        if _rebuilds(base.name, base):
            return base.name
    with suppress(UserError, TypeError):
        if _rebuilds(path := import_path(type(base)), base):
            return path
    return base


def _rebuilds(name: str, base: SearchSpace) -> bool:
    return replace(named_space(name), **_own_sizes(base)) == base


def _own_sizes(base: SearchSpace) -> dict[str, Any]:
    names = ("channels", base.depth_knob, *(["stem"] if "stem" in {one.name for one in fields(base)} else []))
    return {name: getattr(base, name) for name in names}


def _method(preset: Preset, network: SingleArchitecture) -> Method:
    """Return the method that moves only the weights."""
    return Method(
        relaxation=Softmax(), hypergradient=FirstOrder(), arch_optimizer=Fixed(), discretizer=Argmax(),
        schedule=Schedule(level="single"), supernet=SupernetOptions(**preset.settings(network)), name="train",
    )  # fmt: skip


def with_published_cutout(data: Data, preset: str, settings: Mapping[str, Any]) -> Data:
    """Return the data with the cutout of a preset, scaled from 32 pixels, unless the settings have their own."""
    pixels = PRESETS[preset].cutout
    if not pixels or "augmentation.cutout" in settings:
        return data
    scaled = max(pixels * data.image_size // _PUBLISHED_SIZE, 1)
    return data.with_fields(augmentation=replace(data.augmentation, cutout=scaled))


def with_top5(config: SearchConfig, data: Data, preset: str) -> SearchConfig:
    """Return the configuration that counts the five best guesses too, if the preset does and the classes are more."""
    counted = PRESETS[preset].top5 and config.task == "classification" and data.num_classes > TOP
    return replace(config, settings={"task.top5": True, **config.settings}) if counted else config


def with_epochs(config: SearchConfig, data: Data, preset: str) -> SearchConfig:
    """Choose the number of epochs by the time limit in minutes, if they are not given and the preset has no number."""
    minutes = PRESETS[preset].minutes if config.time_limit is None else config.time_limit
    if config.epochs is not None or "weights.epochs" in config.settings or not minutes:
        return config
    return replace(config, epochs=fitting_epochs(config, data, 60 * minutes))
