"""One description of a training, which the library, the command, a run directory and a resume share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from archgrad.arch_optimizers import Fixed
from archgrad.config import SearchConfig, config_to_toml, read_run_config
from archgrad.config.checks import SETTABLE
from archgrad.config.naming import config_with, named_config
from archgrad.config.resolve import resolve, space_of
from archgrad.data import Data
from archgrad.discretizers import Argmax
from archgrad.distributed.processes import from_first
from archgrad.errors import UserError, look_up, shortened, unknown
from archgrad.hypergradients import FirstOrder
from archgrad.loop.estimate import step_seconds
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import own_threads
from archgrad.method.bundle import Method
from archgrad.models import Model
from archgrad.parts.registry import import_path
from archgrad.relaxations import Softmax
from archgrad.spaces import Genotype, SearchSpace, known_genotype, named_space
from archgrad.supernet import SupernetOptions
from archgrad.system.amounts import counted
from archgrad.system.files import as_path, existing_path, exists
from archgrad.system.run_kind import RunKind
from archgrad.tasks.classification import TOP
from archgrad.training.schedule import Schedule
from archgrad.training.weight_training import WeightTraining
from archgrad.workflows.folders import IN_PYTHON, claim, name_in_file, read_json, to_json
from archgrad.workflows.length import length_within
from archgrad.workflows.presets import PRESETS
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.test_images import find_test_images

__all__ = ["MOST_EPOCHS", "NO_TEST", "PLAN", "Training", "as_genotype", "epoch_seconds", "is_begun", "seeds_of"]

PLAN = "training.json"
"""The file with what a configuration does not say about a training."""
NO_TEST = "none"
"""Stands for no test images, even if the data has some."""
MOST_EPOCHS = 300
"""More epochs than this do not help small networks."""
_MOST_SEEDS = 1000
_TRAINED_PARTS = ("weights", "supernet", "augmentation", "task")
_PUBLISHED_SIZE = 32
_OVERHEAD = 1.1
"""The time of an epoch relative to its steps: held-out images and checkpoints add to it."""
_LONGEST = 20.0
"""Measuring takes a tenth of the time, and at most so many seconds."""


@dataclass(frozen=True)
class Training:
    """A configuration whose space is one architecture, its preset, the seeds, and the test images.

    ``test`` is a name, an object, None for the test images of the data's own source, or NO_TEST. With
    ``trains_on_all``, no images are held out if there are test images and the preset says so. ``given`` are the knobs
    that a command needs to repeat it.
    """

    config: SearchConfig
    preset: str = "quick"
    seeds: tuple[int, ...] = (0,)
    test: Any = None
    trains_on_all: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        space: SearchSpace | str,
        genotype: Genotype | str,
        data: Data | str = "digits",
        *,
        preset: str = "quick",
        seeds: int | Sequence[int] = 1,
        test: Any = None,
        start_from: Path | str | None = None,
        **options: Any,
    ) -> Training:
        """Describe a training by the arguments of :func:`archgrad.train`; an option that is None is left out."""
        chosen = look_up("preset", preset, PRESETS)
        known = [one.name for one in fields(SearchConfig) if one.metadata.get("trains", True)]
        for name in options:
            if name not in (*known, "stem"):
                raise unknown("option of a training:", name, (*known, "stem"))
        given: dict[str, Any] = {"weights": chosen.weights}
        given |= {name: one for name, one in options.items() if one is not None}
        base = replace(named_space(space) if isinstance(space, str) else space, restriction=None)
        sizes = chosen.sizes_of(base)
        start = None if start_from is None else existing_path(as_path("start_from", start_from), "model").resolve()
        if start is not None and (own := Model.load(start).space).name == base.name:
            sizes |= {"channels": own.channels, "cells": getattr(own, own.depth_knob)}
        sizes |= {name: given.pop(name) for name in ("channels", "cells", "stem") if name in given}
        architecture = as_genotype(genotype)
        network = SingleArchitecture(
            of=_name(base), architecture=str(architecture), start_from=str(start or ""), **sizes
        )
        network.fixed  # noqa: B018 - it rejects another space's genotype, and a stem that the space has not
        settings = knobs = _checked_settings(given.pop("settings", {}))
        if given.get("task", "classification") == "classification":
            settings = {"task.label_smoothing": chosen.label_smoothing, **settings}
        config = SearchConfig(
            **given, space=network, method=_still_method(SupernetOptions(**chosen.settings(network))), data=data,
            settings=settings, on_collapse="ignore", alpha_budget="off", oracle="none",
        )  # fmt: skip
        return cls(config, preset, seeds_of(seeds, config.seed), test, "held_out" not in given, knobs)

    @property
    def network(self) -> SingleArchitecture:
        """The architecture at its size."""
        space = space_of(self.config)
        if not isinstance(space, SingleArchitecture):
            raise UserError(f"the space of a training is {space.name!r}; it must be one architecture.")
        return space

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return self._weights.epochs

    @property
    def length(self) -> str:
        """The number of epochs in words, with their images if these are not all."""
        part = self._weights.epoch_images
        return counted(self.epochs, "epoch") + ("" if part is None else f" of {part:,} images")

    @property
    def _weights(self) -> WeightTraining:
        return resolve(self.config, standard_callbacks=False).training

    def complete(self, data: Data | None = None) -> tuple[Training, Data, Data | None]:
        """Load the images, and choose what is left open: cutout, metrics, epochs, and whether images are held out.

        Return the complete description, the training images, and the test images, None if there are none.
        """
        config = replace(self.config, seed=self.seeds[0])  # it chooses the images, if their number is limited
        data = config.load_data() if data is None else data
        if data.shape[1] != data.shape[2]:
            raise UserError(
                f"the images have {data.shape[1]}×{data.shape[2]} pixels, but a trained model takes square ones; give "
                f"image_size (--image-size)."
            )
        preset = PRESETS[self.preset]
        tests = None if self.test == NO_TEST else find_test_images(config, data, self.test)
        if tests is not None and self.trains_on_all and preset.trains_on_all:
            config = replace(config, held_out=0.0)
        if preset.cutout and "augmentation.cutout" not in config.settings:
            scaled = max(preset.cutout * data.image_size // _PUBLISHED_SIZE, 1)
            data = data.with_fields(augmentation=replace(data.augmentation, cutout=scaled))
        if preset.top5 and config.task == "classification" and data.num_classes > TOP:
            config = replace(config, settings={"task.top5": True, **config.settings})
        minutes = preset.minutes if config.time_limit is None else config.time_limit
        if minutes and config.epochs is None and "weights.epochs" not in config.settings:
            with own_threads(config.threads):
                config = _with_length(config, data, 60 * minutes)
        return replace(self, config=config), data, tests

    def with_changes(
        self, genotype: Genotype, epochs: int, seeds: tuple[int, ...], tested: bool, held_out: float | None
    ) -> Training:
        """Return a complete training of another genotype, with test images only if ``tested``.

        The warm-up of the learning rate is at most a fifth of the epochs. ``held_out`` is the share of images that
        train nothing, None: as it is.
        """
        settings = {path: one for path, one in self.config.settings.items() if not path.startswith("space.")}
        settings["weights.lr_warmup_epochs"] = min(self._weights.lr_warmup_epochs, epochs // 5)
        share = self.config.held_out if held_out is None else held_out
        space = replace(self.network, architecture=str(genotype))
        config = replace(self.config, space=space, epochs=epochs, settings=settings, held_out=share)
        return replace(self, config=config, seeds=seeds, test=self.test if tested else NO_TEST)

    def to_text(self) -> str:
        """Return the content of ``training.json``: what a configuration does not say, and the given knobs."""
        test = NO_TEST if self.test == NO_TEST else name_in_file(self.test)
        return to_json({"preset": self.preset, "seeds": list(self.seeds), "test": test, "set": dict(self.given)})

    def write(self, folder: Path, data: Data, kind: RunKind, texts: Mapping[str, str] = MappingProxyType({})) -> None:
        """Begin a run directory that holds several trainings, with further ``texts`` by file name."""
        described = config_to_toml(named_config(resolve(self.config, standard_callbacks=False), data))
        claim(folder, kind, {"config.toml": described, PLAN: self.to_text(), **texts})

    @classmethod
    def read(cls, folder: Path, given: Mapping[str, Any]) -> Training:
        """Read the training of a run directory.

        ``given`` are objects that its files could not name (``space``, ``data``, ``task``, ``test``) and the number of
        ``workers``; None is left out.
        """
        objects = {name: one for name, one in given.items() if one is not None}
        content, config, test = _read_plan(folder), read_run_config(folder), objects.pop("test", None)
        missing = [name for name in config.needs if name not in objects]
        missing += ["test"] if test is None and content["test"] == IN_PYTHON else []
        if missing:
            again = ", ".join(f"{name}=…" for name in missing)
            raise UserError(
                f"the {' and '.join(missing)} of {folder} cannot be named in a file; give it again in Python: "
                f"archgrad.resume(DIR, {again})."
            )
        own = objects.get("space")
        if isinstance(own, SearchSpace) and not isinstance(own, SingleArchitecture):  # the files have its size
            sizes: dict[str, Any] = {"channels": config.channels, "cells": config.cells}
            objects["space"] = SingleArchitecture(**{**config.settings_of("space"), **sizes, "of": own})
        test = content["test"] if test is None else test
        seeds, given = seeds_of(content["seeds"], 0), content.get("set", {})
        return cls(config_with(config, objects), content["preset"], seeds, test, given=given)


def as_genotype(given: Genotype | str) -> Genotype:
    """Return a genotype from an object, its text, or the name of a well-known cell or network."""
    if isinstance(given, Genotype):
        return given
    if not isinstance(given, str):
        raise UserError(f"the genotype is {shortened(given)}; give a Genotype, its text, or a well-known name.")
    return known_genotype(given) or Genotype.parse(given)


def is_begun(home: Path | None) -> bool:
    """Tell whether a training was begun in this folder: its description, which is written last, is there."""
    return home is not None and from_first(lambda: exists(home / PLAN))


def seeds_of(given: int | Sequence[int], first: int) -> tuple[int, ...]:
    """Return the seeds: so many from ``first`` on, or the given ones.

    >>> seeds_of(3, 10), seeds_of([4, 2], 0)
    ((10, 11, 12), (4, 2))
    """
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= _MOST_SEEDS:
        return tuple(range(first, first + given))
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if not 1 <= len(listed) <= _MOST_SEEDS or not all(type(one) is int for one in listed):
        raise UserError(
            f"seeds is {shortened(given)}; give a number of trainings from 1 to {_MOST_SEEDS}, or a list of seeds."
        )
    if len({*listed}) < len(listed):
        raise UserError(f"seeds is {shortened(given)}; each seed may be there once.")
    return listed


def epoch_seconds(config: SearchConfig, data: Data, at_most: float = _LONGEST, at_least: float = 0.0) -> float:
    """Measure a few steps, for ``at_least`` and about ``at_most`` so many seconds, and return the time of an epoch."""
    parts = resolve(config)
    return Experiment.of(parts, data).steps * step_seconds(parts, data, at_most, at_least) * _OVERHEAD


def _with_length(config: SearchConfig, data: Data, seconds: float) -> SearchConfig:
    """Choose epochs that take about so many seconds, with fewer images each if there is no time for some passes.

    Steps are timed for a fiftieth of that: another process that is busy for a second must not halve the training.
    """
    taken = epoch_seconds(config, data, min(seconds / 10, _LONGEST), min(seconds / 50, _LONGEST))
    left = max(seconds - min(seconds / 50, _LONGEST), 0.0)
    if "weights.epoch_images" in config.settings:
        return replace(config, epochs=min(max(int(left / taken), 1), MOST_EPOCHS))
    images = max(round((1 - config.held_out) * len(data)), 1)
    length = length_within(left, images / taken, images, data.num_classes, MOST_EPOCHS)
    return replace(config, epochs=length.epochs, settings={**config.settings, **length.settings(images)})


def _still_method(options: SupernetOptions) -> Method:
    """Return the method that moves only the weights."""
    return Method(
        relaxation=Softmax(), hypergradient=FirstOrder(), arch_optimizer=Fixed(), discretizer=Argmax(),
        schedule=Schedule(level="single"), supernet=options, name="train",
    )  # fmt: skip


def _checked_settings(given: Any) -> Mapping[str, Any]:
    """Return the knobs by path; reject those of parts that only a search has."""
    if not isinstance(given, Mapping):
        raise UserError(f"settings is {shortened(given)}; it must be a dictionary of knobs by path.")
    for path in given:
        part = str(path).rpartition(".")[0]
        if part in SETTABLE and part not in _TRAINED_PARTS:
            fix = "give channels, cells or stem" if part == "space" else f"give knobs of {', '.join(_TRAINED_PARTS)}"
            raise UserError(f"the setting {shortened(path)} is for searches; {fix} instead.")
    return given


def _name(base: SearchSpace) -> str | SearchSpace:
    """Return the name from which this space can be built again at any size, or the space itself.

    What a search excludes does not change the network of a genotype.
    """
    own = {one.name for one in fields(base)}
    changed = ("channels", base.depth_knob, "stem", "exclude")
    sizes: dict[str, Any] = {name: getattr(base, name) for name in changed if name in own}
    names = [base.name]
    with suppress(UserError):
        names.append(import_path(type(base)))
    for name in names:
        with suppress(UserError, TypeError):
            if replace(named_space(name), **sizes) == base:
                return name
    return base


def _read_plan(folder: Path) -> dict[str, Any]:
    """Return the checked content of ``training.json``."""
    path = folder / PLAN
    if not exists(path):
        whole = folder.resolve().parent
        raise UserError(
            f"{folder} holds one seed of a training; continue all of it with `archgrad resume {whole}`."
            if exists(whole / PLAN)
            else f"{folder} holds no training: it has no {PLAN}; start one with `archgrad train`."
        )
    content = read_json(path, "a training", ("preset", "seeds", "test"))
    preset, seeds, test = (content[name] for name in ("preset", "seeds", "test"))
    right = isinstance(test, str | None) and isinstance(preset, str) and isinstance(seeds, list)
    if not right or not isinstance(content.get("set", {}), dict):
        raise UserError(f"{path} has a wrong preset, seeds, test or set; start a new training in another folder.")
    look_up("preset", preset, PRESETS)
    return content
