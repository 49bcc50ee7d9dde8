"""A run's configuration: what the command line and a TOML file say, and the search it stands for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from archgrad.alpha_budget import BudgetChoice, read_budget
from archgrad.errors import UserError, check_held_out, check_number, check_one_of, unknown
from archgrad.knobs import OPTIONAL_PARTS, PARTS, knobs_of, with_settings, without_none
from archgrad.reactions import REACTIONS

if TYPE_CHECKING:
    from archgrad.callbacks import Callback
    from archgrad.data import Augmentation, ImageData
    from archgrad.loop.setup import Setup
    from archgrad.method import Method
    from archgrad.progressive import Progressive
    from archgrad.regularizers import Regularizer
    from archgrad.spaces import SearchSpace
    from archgrad.training import WeightTraining

__all__ = ["RunConfig", "read_config"]

SETTABLE = (*PARTS, *OPTIONAL_PARTS, "weights", "space", "augmentation")
_PUBLISHED_SIZE = 32
"""The side of the images that published augmentations are for."""


SIZES = {
    "weights.epochs": "epochs",
    "weights.batch_size": "batch_size",
    "space.channels": "channels",
    "space.cells": "cells",
    "space.cells_per_stage": "cells",
}
"""Settings that are sizes too, by the names that those have."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All choices of a run by name; None means the default of the space, the method or the data.

    ``settings`` are knobs by path, such as ``{"arch_optimizer.lr": 0.001}``.
    """

    space: str = "nasbench201"
    method: str = "gaea-simultaneous"
    relaxation: str | None = None
    hypergradient: str | None = None
    arch_optimizer: str | None = None
    regularizer: str | None = None
    discretizer: str | None = None
    callback: str | None = None
    data: str = "digits"
    data_dir: str | None = None
    epochs: int | None = None
    seed: int = 0
    channels: int | None = None
    cells: int | None = None
    batch_size: int | None = None
    limit: int | None = None
    image_size: int | None = None
    split: str | None = None
    held_out: float = 0.1
    device: str = "cpu"
    threads: int | None = None
    compile: bool = False
    time_limit: float | None = None
    on_collapse: str = "warn"
    alpha_budget: str | float = "published"
    oracle: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit)
        check_held_out(self.held_out)
        check_one_of("on_collapse", self.on_collapse, REACTIONS)
        self.budget  # noqa: B018 - it refuses what is none
        for path in self.settings:
            part, dot, knob = path.partition(".")
            if not dot or not knob:
                raise UserError(f"the setting {path!r} names no knob; write part.knob, such as arch_optimizer.lr.")
            if part not in SETTABLE:
                _check_member(part)

    @property
    def is_sized(self) -> bool:
        """Whether it says how wide, deep or long the search is, so that nothing has to be chosen.

        >>> RunConfig(epochs=5).is_sized, RunConfig().is_sized, RunConfig(epochs=5, time_limit=2.0).is_sized
        (True, False, False)
        """
        if self.time_limit is not None:
            return self.time_limit == 0
        sizes = (self.epochs, self.channels, self.cells, self.batch_size)
        return any(size is not None for size in sizes) or any(path in self.settings for path in SIZES)

    def with_sizes(self) -> RunConfig:
        """Return the same, with sizes that are given as settings in their own places.

        >>> RunConfig(settings={"weights.epochs": "3"}).with_sizes().epochs
        3
        """
        given = {name: self.settings[path] for path, name in SIZES.items() if path in self.settings}
        free: dict[str, Any] = {
            name: _whole(name, value) for name, value in given.items() if getattr(self, name) is None
        }
        return replace(
            self, **free, settings={path: value for path, value in self.settings.items() if path not in SIZES}
        )

    @property
    def budget(self) -> BudgetChoice:
        """How far α may move: a word, or a factor for its learning rate.

        >>> RunConfig(alpha_budget="2.5").budget
        2.5
        """
        return read_budget(self.alpha_budget)

    def oracle_datasets(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the data sets whose accuracies in a table are shown: those asked for, or the one that is searched on.

        >>> RunConfig(data="cifar10").oracle_datasets(("cifar10", "cifar100"))
        ('cifar10',)
        >>> RunConfig(data="digits").oracle_datasets(("cifar10", "cifar100"))
        ()
        """
        if self.oracle == "auto":
            return tuple(name for name in known if name == self.data)
        if self.oracle == "none":
            return ()
        wanted = [name.strip() for name in self.oracle.split(",")]
        for name in wanted:
            if name in ("auto", "none"):
                raise UserError(f"oracle is {self.oracle!r}; {name} stands alone, or name data sets by commas.")
            if name not in known:
                raise unknown("data set in oracle:", name, ("auto", "none", *known))
        return tuple(name for name in known if name in wanted)

    def build_space(self) -> SearchSpace:
        """Return the space at the configured size, or else as the method was published with."""
        from archgrad import recipes, spaces

        space = spaces.named(self.space)()
        space = replace(space, **recipes.sized(self.method, space))
        sizes: dict[str, Any] = {"channels": self.channels, space.depth_knob: self.cells}
        space = replace(space, **{name: size for name, size in sizes.items() if size is not None})
        return with_settings(space, self._settings_of("space"), "space")

    def build_method(self) -> Method:
        """Return the recipe, with other parts where they are named, and with its settings."""
        from archgrad import arch_optimizers, discretizers, hypergradients, recipes, relaxations

        method = recipes.named(self.method, self.space)
        parts: dict[str, Any] = {part: getattr(method, part) for part in PARTS}
        families: dict[str, Callable[[str], object]] = {
            "relaxation": relaxations.named,
            "hypergradient": hypergradients.named,
            "arch_optimizer": arch_optimizers.named,
            "discretizer": discretizers.named,
        }
        parts |= {part: named(name) for part, named in families.items() if (name := getattr(self, part)) is not None}
        parts = {part: with_settings(parts[part], self._settings_of(part), part) for part in PARTS}
        method = replace(method, progressive=self._at_depth(method.progressive))
        parts |= {part: self._optional(part, method) for part in OPTIONAL_PARTS}
        return replace(method, **parts, regularizers=self._regularizers(method))

    def _at_depth(self, stages: Progressive | None) -> Progressive | None:
        """Give all stages the depth of the space if one is asked for; refuse it where each stage is given its own."""
        if stages is None or self.cells is None:
            return stages
        if "progressive.cells" not in self.settings:
            return with_settings(stages, {"cells": "none"}, "progressive")
        given = with_settings(stages, self._settings_of("progressive"), "progressive").stages
        if all(stage.cells for stage in given):
            own = ", ".join(str(stage.cells) for stage in given)
            raise UserError(
                f"cells is {self.cells}, but stages have their own, {own}; leave it out, or set progressive.cells=none."
            )
        return stages

    def _optional(self, part: str, method: Method) -> Any:
        """Return a part that the method may be without, with its settings; refuse settings of a part it lacks."""
        member, settings = getattr(method, part), self._settings_of(part)
        if member is not None:
            return with_settings(member, settings, part)
        for knob in settings:
            raise UserError(
                f"{part}.{knob} cannot be set: the method {self.method!r} has no {part}; `archgrad list methods` "
                f"shows which have one."
            )
        return None

    def _regularizers(self, method: Method) -> tuple[Regularizer, ...]:
        """Return the method's regularisers, those that are named in their place or as well, with their settings."""
        from archgrad.callbacks import CALLBACKS
        from archgrad.regularizers import name_of

        chosen = method.regularizers if self.regularizer is None else self._named_regularizers(method)
        own = [(name_of(regularizer), regularizer) for regularizer in chosen]
        others = {name for name, _ in own} | {*SETTABLE, *CALLBACKS}
        for part in {path.partition(".")[0] for path in self.settings} - others:
            raise UserError(f"{part} cannot be set: this search has no such regulariser; add --regularizer +{part}.")
        return tuple(
            regularizer if name is None else with_settings(regularizer, self._settings_of(name), name)
            for name, regularizer in own
        )

    def _named_regularizers(self, method: Method) -> tuple[Regularizer, ...]:
        """Return the regularisers that are named, after the method's own if their names begin with a plus."""
        from archgrad import regularizers

        names = [name.strip() for name in (self.regularizer or "").split(",") if name.strip()]
        added = [name.removeprefix("+").strip() for name in names if name.startswith("+")]
        if added and len(added) < len(names):
            raise UserError(
                f"regularizer is {self.regularizer!r}, which both adds to the method's regularisers and replaces them; "
                f"write a plus before every name, to add, or before none, to replace."
            )
        if added:
            return (*method.regularizers, *map(regularizers.named, added))
        return () if names == ["none"] else tuple(map(regularizers.named, names))

    def build_callbacks(self) -> tuple[Callback, ...]:
        """Return the callbacks that are named, with their knobs turned."""
        return tuple(self._named_callbacks().values())

    def _named_callbacks(self) -> dict[str, Callback]:
        from archgrad import callbacks

        names = list(dict.fromkeys(name.strip() for name in (self.callback or "").split(",") if name.strip()))
        for part in {path.partition(".")[0] for path in self.settings} & set(callbacks.CALLBACKS) - set(names):
            raise UserError(f"{part} cannot be set: this search does not name that callback; add --callback {part}.")
        return {name: with_settings(callbacks.named(name), self._settings_of(name), name) for name in names}

    def build_training(self, space: SearchSpace, method: Method) -> WeightTraining:
        """Return how the weights are trained: as the space says, the method changes it, and the settings turn it."""
        chosen = {"epochs": self.epochs, "batch_size": self.batch_size}
        given = {name: value for name, value in chosen.items() if value is not None}
        return with_settings(method.trained(space.training), {**self._settings_of("weights"), **given}, "weights")

    def load_data(self) -> ImageData:
        """Load the images."""
        from archgrad import data

        folder = None if self.data_dir is None else Path(self.data_dir)
        images = data.load(self.data, data_dir=folder, limit=self.limit, image_size=self.image_size, seed=self.seed)
        augmentation = self._published_augmentation(images)
        return replace(
            images, augmentation=with_settings(augmentation, self._settings_of("augmentation"), "augmentation")
        )

    def _published_augmentation(self, images: ImageData) -> Augmentation:
        """Return the augmentation that suits the data, with what the method was published with of 32 pixels."""
        from archgrad import recipes

        own = {
            path.removeprefix("augmentation."): setting.value
            for path, setting in recipes.declared(self.method, self.space).items()
            if path.startswith("augmentation.")
        }
        published = replace(images.augmentation, **own).scaled(_PUBLISHED_SIZE, images.image_size) if own else None
        changes = {name: getattr(published, name) for name in own}
        return replace(images.augmentation, **changes)

    def prepared(self, space: SearchSpace, method: Method) -> Callable[[SearchSpace, Method], Setup]:
        """Return what completes this space and method, or a stage of them, with all else that is configured."""
        from archgrad.loop.setup import Setup

        return partial(
            Setup.of,
            data=self.load_data(),
            seed=self.seed,
            training=self.build_training(space, method),
            batch_size=self.batch_size,
            split=self.split,
            held_out=self.held_out,
            device=self.device,
            on_collapse=self.on_collapse,
            alpha_budget=self.budget,
        )

    def resolved(self, space: SearchSpace, method: Method, training: WeightTraining, images: ImageData) -> RunConfig:
        """Write out every default and make every path absolute: all that is needed to repeat the run anywhere."""
        from archgrad.regularizers import name_of

        parts = {part: getattr(method, part) for part in PARTS}
        parts |= {part: member for part in OPTIONAL_PARTS if (member := getattr(method, part)) is not None}
        parts |= {"weights": training, "space": space, "augmentation": images.augmentation}
        parts |= {name: regularizer for regularizer in method.regularizers if (name := name_of(regularizer))}
        parts |= self._named_callbacks()
        stages = () if method.progressive is None else method.progressive.stages
        depth = None if stages and all(stage.cells for stage in stages) else getattr(space, space.depth_knob)
        sizes: dict[str, Any] = {"channels": space.channels, "cells": depth, "epochs": training.epochs}
        named = {"space.channels", f"space.{space.depth_knob}", "weights.epochs"}
        knobs = {f"{part}.{knob}": value for part, member in parts.items() for knob, value in knobs_of(member).items()}
        kept = {path: without_none(value) for path, value in knobs.items() if path not in named}
        kind, colon, path = self.data.partition(":")
        folder = self.data_dir or os.environ.get("ARCHGRAD_DATA")
        return replace(
            self,
            **sizes,
            time_limit=None,
            settings=kept,
            data=f"{kind}:{Path(path).resolve()}" if colon else self.data,
            data_dir=str(Path(folder).resolve()) if folder and not colon else None,
        )

    @property
    def all_epochs(self) -> int | None:
        """The epochs of all stages, of a configuration that is resolved."""
        stages = self.settings.get("progressive.keep", (None,))
        return None if self.epochs is None else self.epochs * len(stages)

    def _settings_of(self, part: str) -> dict[str, Any]:
        prefix = f"{part}."
        return {path.removeprefix(prefix): value for path, value in self.settings.items() if path.startswith(prefix)}

    def to_toml(self) -> str:
        """Return the configuration as TOML, readable by ``--config``."""
        import tomli_w

        content = {name: value for name, value in asdict(self).items() if value is not None and name != "settings"}
        return tomli_w.dumps(content | {"set": _nested(self.settings)})


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file into the arguments of :class:`RunConfig`; knobs stand in the table ``[set]``.

    Runs did not scale the learning rate of α before there was ``alpha_budget``. So it is "off" in a file that a run has
    written without it.
    """
    content = _read_toml(path)
    allowed = [knob.name for knob in fields(RunConfig) if knob.name != "settings"] + ["set"]
    for name in content:
        if name not in allowed:
            raise unknown(f"key in {path}:", name, allowed)
    settings = _flat(content.pop("set", {}), path)
    earlier = {"alpha_budget": "off"} if _is_of_a_run(settings) else {}
    return earlier | {name: _checked(name, value, path) for name, value in content.items()} | {"settings": settings}


def _is_of_a_run(settings: Mapping[str, Any]) -> bool:
    """Tell whether a run has written these settings: it writes every knob, and nobody else gives all of these."""
    weights = {f"weights.{knob}" for knob in ("lr", "lr_min", "momentum", "weight_decay", "clip", "batch_size")}
    return weights <= set(settings) and any(path.startswith("augmentation.") for path in settings)


def _whole(name: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise UserError(f"{name} is {value!r}; it must be a whole number.") from None


def _check_member(part: str) -> None:
    """Refuse a setting whose part is neither a part of every method nor the name of a regulariser or a callback."""
    from archgrad.callbacks import CALLBACKS
    from archgrad.regularizers import REGULARIZERS

    if part not in REGULARIZERS and part not in CALLBACKS:
        raise unknown("part in a setting:", part, (*SETTABLE, *REGULARIZERS, *CALLBACKS))


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no configuration file {path}; check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the configuration file {path} cannot be read ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}.") from error


def _checked(name: str, value: Any, path: Path) -> Any:
    kinds = [kind for kind in _WORDS if kind in (_HINTS[name], *get_args(_HINTS[name]))]
    if type(value) is int and float in kinds:
        return float(value)
    if type(value) not in kinds:
        raise UserError(f"{name} in {path} is {value!r}; it must be {_WORDS[kinds[0]]}.")
    return value


def _flat(content: Any, path: Path) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(knobs, dict) for knobs in content.values()):
        raise UserError(f"the table [set] in {path} must hold knobs by part, such as arch_optimizer.lr = 0.001.")
    return {f"{part}.{knob}": value for part, knobs in content.items() for knob, value in knobs.items()}


def _nested(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for path, value in settings.items():
        part, _, knob = path.partition(".")
        nested.setdefault(part, {})[knob] = value
    return nested


_WORDS: dict[Any, str] = {bool: "true or false", str: "text in quotes", int: "a whole number", float: "a number"}
_HINTS = get_type_hints(RunConfig)
