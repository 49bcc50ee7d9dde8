"""A run's configuration: what the command line and a TOML file say, and the search it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.alpha_budget import BudgetChoice, read_budget
from archgrad.errors import UserError, check_held_out, check_number, check_one_of, unknown
from archgrad.knobs import OPTIONAL_PARTS, PARTS, with_settings
from archgrad.reactions import REACTIONS
from archgrad.registry import Registry, class_path

if TYPE_CHECKING:
    from archgrad.callbacks import Callback
    from archgrad.data import Augmentation, ImageData
    from archgrad.method import Method
    from archgrad.progressive import Progressive
    from archgrad.regularizers import Regularizer
    from archgrad.schedule import Level
    from archgrad.spaces import SearchSpace
    from archgrad.training import WeightTraining

__all__ = ["SETTABLE", "SearchConfig", "families"]

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
class SearchConfig:
    """One description of a search: what :func:`archgrad.search`, the command, a run directory and a resume share.

    ``space``, ``method`` and ``data`` are names or objects. None means the default of the space, the method or the
    data. ``settings`` are knobs by path, such as ``{"arch_optimizer.lr": 0.001}``. ``training`` replaces the published
    settings of the weights. ``needs`` names what a run directory could not write down.
    """

    space: str | SearchSpace = "nasbench201"
    method: str | Method = "gaea-simultaneous"
    relaxation: str | None = None
    hypergradient: str | None = None
    arch_optimizer: str | None = None
    regularizer: str | None = None
    discretizer: str | None = None
    callback: str | None = None
    data: str | ImageData = "digits"
    data_dir: str | None = None
    epochs: int | None = None
    seed: int = 0
    channels: int | None = None
    cells: int | None = None
    batch_size: int | None = None
    limit: int | None = None
    image_size: int | None = None
    split: str | tuple[float, float] | None = None
    held_out: float = 0.1
    device: str = "cpu"
    threads: int | None = None
    compile: bool = False
    time_limit: float | None = None
    on_collapse: str = "warn"
    alpha_budget: str | float = "published"
    oracle: str = "auto"
    training: WeightTraining | None = None
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit)
        check_held_out(self.held_out)
        check_one_of("on_collapse", self.on_collapse, REACTIONS)
        self.budget  # noqa: B018 - it refuses what is none
        for path in self.settings:
            part, dot, knob = path.rpartition(".")
            if not dot or not knob:
                raise UserError(f"the setting {path!r} names no knob; write part.knob, such as arch_optimizer.lr.")
            if part not in SETTABLE and ":" not in part:
                _check_member(part)

    @property
    def is_sized(self) -> bool:
        """Whether it says how wide, deep or long the search is, so that nothing has to be chosen.

        >>> SearchConfig(epochs=5).is_sized, SearchConfig().is_sized, SearchConfig(epochs=5, time_limit=2.0).is_sized
        (True, False, False)
        """
        if self.time_limit is not None:
            return self.time_limit == 0
        sizes = (self.epochs, self.channels, self.cells, self.batch_size)
        return any(size is not None for size in sizes) or any(path in self.settings for path in SIZES)

    def with_sizes(self) -> SearchConfig:
        """Return the same, with sizes that are given as settings in their own places.

        >>> SearchConfig(settings={"weights.epochs": "3"}).with_sizes().epochs
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

        >>> SearchConfig(alpha_budget="2.5").budget
        2.5
        """
        return read_budget(self.alpha_budget)

    def oracle_datasets(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the data sets whose accuracies in a table are shown: those asked for, or the one that is searched on.

        >>> SearchConfig(data="cifar10").oracle_datasets(("cifar10", "cifar100"))
        ('cifar10',)
        >>> SearchConfig(data="digits").oracle_datasets(("cifar10", "cifar100"))
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

    def split_fractions(self, level: Level) -> tuple[float, float] | None:
        """Return the parts of the data for weights and architecture, None where they share all of it."""
        from archgrad.data import split_fractions

        return split_fractions(self.split, level)

    @property
    def recipe(self) -> str | None:
        """The name of the published method that it names, None for a method of the user's own."""
        from archgrad.recipes import RECIPES

        return self.method if isinstance(self.method, str) and self.method in RECIPES else None

    def build_space(self) -> SearchSpace:
        """Return the space at the configured size, or else as the method was published with."""
        from archgrad import recipes
        from archgrad.spaces import SPACES

        if isinstance(self.space, str):
            space = SPACES.create(self.space)
            space = replace(space, **({} if self.recipe is None else recipes.sized(self.recipe, space)))
        else:
            space = self.space
        sizes: dict[str, Any] = {"channels": self.channels, space.depth_knob: self.cells}
        space = replace(space, **{name: size for name, size in sizes.items() if size is not None})
        return with_settings(space, self._settings_of("space"), "space")

    def build_method(self) -> Method:
        """Return the method, with other parts where they are named, and with its settings."""
        named = {part: family.create(name) for part, family in families().items() if (name := getattr(self, part))}
        method = self._base_method(named)
        parts: dict[str, Any] = {part: getattr(method, part) for part in PARTS} | named
        parts = {part: with_settings(parts[part], self._settings_of(part), part) for part in PARTS}
        method = replace(method, progressive=self._at_depth(method.progressive))
        parts |= {part: self._optional(part, method) for part in OPTIONAL_PARTS}
        return replace(method, **parts, regularizers=self._regularizers(method))

    def _base_method(self, named: Mapping[str, Any]) -> Method:
        """Return the method before settings: an object, a recipe, or parts that are all named."""
        from archgrad import recipes
        from archgrad.method import Method

        if not isinstance(self.method, str):
            return self.method
        if self.recipe is None and len(named) == len(families()):
            return Method(**named, name=self.method)
        return recipes.named(self.method, self.space)

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

        chosen = method.regularizers if self.regularizer is None else self._named_regularizers(method)
        own = [(_member_name(regularizer), regularizer) for regularizer in chosen]
        others = {name for name, _ in own} | {*SETTABLE, *CALLBACKS, *self._callback_names}
        for part in {path.rpartition(".")[0] for path in self.settings} - others:
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
            return (*method.regularizers, *map(regularizers.REGULARIZERS.create, added))
        return () if names == ["none"] else tuple(map(regularizers.REGULARIZERS.create, names))

    @property
    def _callback_names(self) -> list[str]:
        return list(dict.fromkeys(name.strip() for name in (self.callback or "").split(",") if name.strip()))

    def build_callbacks(self) -> tuple[Callback, ...]:
        """Return the callbacks that are named, with their knobs turned."""
        return tuple(self.named_callbacks().values())

    def named_callbacks(self) -> dict[str, Callback]:
        """Return the callbacks by the names that the configuration gives."""
        from archgrad import callbacks

        names = self._callback_names
        for part in {path.rpartition(".")[0] for path in self.settings} & set(callbacks.CALLBACKS) - set(names):
            raise UserError(f"{part} cannot be set: this search does not name that callback; add --callback {part}.")
        return {name: with_settings(callbacks.CALLBACKS.create(name), self._settings_of(name), name) for name in names}

    def build_training(self, space: SearchSpace, method: Method) -> WeightTraining:
        """Return how the weights are trained: as the space says, the method changes it, and the settings turn it."""
        chosen = {"epochs": self.epochs, "batch_size": self.batch_size}
        given = {name: value for name, value in chosen.items() if value is not None}
        base = method.trained(space.training) if self.training is None else self.training
        return with_settings(base, {**self._settings_of("weights"), **given}, "weights")

    def load_data(self) -> ImageData:
        """Load the images."""
        from archgrad import data

        if isinstance(self.data, str):
            folder = None if self.data_dir is None else Path(self.data_dir)
            images = data.load(self.data, data_dir=folder, limit=self.limit, image_size=self.image_size, seed=self.seed)
            augmentation = self._published_augmentation(images)
        else:
            images = self.data if self.limit is None else self.data.limited(self.limit, self.seed)
            images = images if self.image_size is None else images.resized(self.image_size)
            augmentation = images.augmentation
        return replace(
            images, augmentation=with_settings(augmentation, self._settings_of("augmentation"), "augmentation")
        )

    def _published_augmentation(self, images: ImageData) -> Augmentation:
        """Return the augmentation that suits the data, with what the method was published with of 32 pixels."""
        from archgrad import recipes

        declared = {} if self.recipe is None else recipes.declared(self.recipe, self.space)
        own = {
            path.removeprefix("augmentation."): setting.value
            for path, setting in declared.items()
            if path.startswith("augmentation.")
        }
        published = replace(images.augmentation, **own).scaled(_PUBLISHED_SIZE, images.image_size) if own else None
        changes = {name: getattr(published, name) for name in own}
        return replace(images.augmentation, **changes)

    @property
    def all_epochs(self) -> int | None:
        """The epochs of all stages, of a configuration that is resolved."""
        stages = self.settings.get("progressive.keep", (None,))
        return None if self.epochs is None else self.epochs * len(stages)

    def _settings_of(self, part: str) -> dict[str, Any]:
        prefix = f"{part}."
        return {path.removeprefix(prefix): value for path, value in self.settings.items() if path.startswith(prefix)}


def families() -> dict[str, Registry[Any]]:
    """Return the families of parts that a method must have one member of, by the names of its fields."""
    from archgrad.arch_optimizers import ARCH_OPTIMIZERS
    from archgrad.discretizers import DISCRETIZERS
    from archgrad.hypergradients import HYPERGRADIENTS
    from archgrad.relaxations import RELAXATIONS

    return {
        "relaxation": RELAXATIONS,
        "hypergradient": HYPERGRADIENTS,
        "arch_optimizer": ARCH_OPTIMIZERS,
        "discretizer": DISCRETIZERS,
    }


def check_kinds(config: SearchConfig) -> None:
    """Reject anything but names and objects of the right kind for space, method, data and training."""
    given = {name: getattr(config, name) for name in ("space", "method", "data")}
    objects = {name: value for name, value in given.items() if not isinstance(value, str)}
    if not objects and config.training is None:
        return  # without PyTorch, for a fast command
    from archgrad.data import ImageData
    from archgrad.method import Method
    from archgrad.spaces import SearchSpace
    from archgrad.training import WeightTraining

    kinds = {"space": SearchSpace, "method": Method, "data": ImageData}
    for name, value in objects.items():
        if not isinstance(value, kinds[name]):
            raise UserError(
                f"{name} is {_shown(value)}; it must be a name (see `archgrad list {_LISTS[name]}`) or an object of "
                f"{class_path(kinds[name])}."
            )
    if config.training is not None and not isinstance(config.training, WeightTraining):
        raise UserError(f"training is {_shown(config.training)}; it must be an archgrad.WeightTraining.")


_LISTS = {"space": "spaces", "method": "methods", "data": "data"}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _whole(name: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise UserError(f"{name} is {value!r}; it must be a whole number.") from None


def _member_name(regularizer: Regularizer) -> str | None:
    from archgrad.regularizers import REGULARIZERS

    try:
        return REGULARIZERS.name_of(regularizer)
    except UserError:  # a class that cannot be imported by name: it comes with its settings
        return None


def _check_member(part: str) -> None:
    """Refuse a setting whose part is neither a part of every method nor the name of a regulariser or a callback."""
    from archgrad.callbacks import CALLBACKS
    from archgrad.regularizers import REGULARIZERS

    if part not in REGULARIZERS and part not in CALLBACKS:
        raise unknown("part in a setting:", part, (*SETTABLE, *REGULARIZERS, *CALLBACKS))
