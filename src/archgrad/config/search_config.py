"""The configuration of a search, as the command line and TOML files give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any

from archgrad.config.published import check_nothing_else
from archgrad.errors import UserError, check_one_of, shortened, unknown
from archgrad.method.alpha_budget import BudgetChoice, read_budget
from archgrad.method.reactions import REACTIONS
from archgrad.parts.fields import NonNegative, Probability, Range, check_value
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS
from archgrad.parts.registry import class_path

if TYPE_CHECKING:
    from archgrad.data import Data
    from archgrad.method.bundle import Method
    from archgrad.spaces import SearchSpace
    from archgrad.tasks import BaseTask
    from archgrad.training.schedule import Level
    from archgrad.training.weight_training import WeightTraining

__all__ = ["SETTABLE", "SearchConfig"]

SETTABLE = (*PARTS, *OPTIONAL_PARTS, "weights", "space", "augmentation", "task")
SIZES = {
    "weights.epochs": "epochs",
    "weights.batch_size": "batch_size",
    "space.channels": "channels",
    "space.cells": "cells",
    "space.cells_per_stage": "cells",
}
"""Settings that are also fields, with the names of the fields."""

PRECISIONS = ("32", "bf16", "16")
_WHOLE = dict.fromkeys(("epochs", "channels", "cells", "batch_size", "image_size", "search_size", "threads"), 1_000_000)
_WHOLE |= {"limit": 10**12}
"""The fields that are positive whole numbers, and the largest that each may be."""
MOST_WORKERS = 256
"""So many processes may read the data; more are a slip of the keyboard."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """One description of a search, shared by :func:`archgrad.search`, the command, run directories and resumes.

    ``space``, ``method``, ``data`` and ``task`` are names or objects. None means the default of the space, the method
    or the data. ``settings`` are knobs by path, such as ``{"arch_optimizer.lr": 0.001}``. ``weights`` replaces the
    published weight-training settings. A search may look at the images at a ``search_size`` other than ``image_size``;
    a training of what it found does not. ``published`` is the search of the recipe's paper, to the letter. ``needs``
    names the objects that a run directory could not write down.
    """

    space: str | SearchSpace = "nasbench201"
    method: str | Method = "gaea-simultaneous"
    relaxation: str | None = None
    hypergradient: str | None = None
    arch_optimizer: str | None = None
    regularizer: str | None = None
    discretizer: str | None = None
    callback: str | None = None
    data: str | Data = "digits"
    data_dir: str | None = None
    task: str | BaseTask = "classification"
    published: bool = False
    epochs: int | None = None
    seed: int = 0
    channels: int | None = None
    cells: int | None = None
    batch_size: int | None = None
    limit: int | None = None
    image_size: int | None = None
    search_size: int | None = None
    resize: str = "crop"
    split: str | tuple[float, float] | None = None
    held_out: float = None  # type: ignore[assignment]  # 0.1, or 0 in a published search
    device: str = "cpu"
    precision: str = "32"
    deterministic: bool = False
    threads: int | None = None
    workers: int = 0
    compile: bool = False
    checkpoint_cells: bool = False
    local_batch_norm: bool = False
    time_limit: float | None = None
    on_collapse: str = "warn"
    alpha_budget: str | float = None  # type: ignore[assignment]  # "published", or "off" in a published search
    oracle: str = "auto"
    weights: WeightTraining | None = None
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_value("published", self.published, bool)
        for name, usual, published in (("held_out", 0.1, 0.0), ("alpha_budget", "published", "off")):
            if getattr(self, name) is None:
                object.__setattr__(self, name, published if self.published else usual)
        check_kinds(self)
        if not isinstance(self.settings, Mapping):
            raise UserError(f"settings is {shortened(self.settings)}; it must be a dictionary of knobs by path.")
        _check_encodable({one.name: getattr(self, one.name) for one in fields(self)} | dict(self.settings))
        for name, most in _WHOLE.items():
            if (value := getattr(self, name)) is not None:
                whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
                check_value(name, whole, Annotated[int, Range(1, most)])
        check_value("workers", self.workers, Annotated[int, Range(0, MOST_WORKERS)])
        check_value("time_limit", self.time_limit, NonNegative | None)
        check_value("held_out", self.held_out, Probability)
        check_one_of("on_collapse", self.on_collapse, REACTIONS)
        if not isinstance(self.precision, str):  # 16 and 32 may be numbers
            object.__setattr__(self, "precision", str(self.precision))
        check_one_of("precision", self.precision, PRECISIONS)
        for name in ("deterministic", "compile", "checkpoint_cells"):
            check_value(name, getattr(self, name), bool)
        self.budget  # noqa: B018 - it rejects a bad value
        if self.published:
            check_nothing_else(self)
        for path in self.settings:
            part, dot, knob = path.rpartition(".")
            if not dot or not knob:
                raise UserError(
                    f"the setting {shortened(path)} does not name a knob; write part.knob, such as arch_optimizer.lr."
                )
            if part not in SETTABLE and ":" not in part:
                _check_member(part)

    @property
    def is_sized(self) -> bool:
        """Whether the user gives a size (width, depth or length) or asks for the published ones: none is chosen.

        >>> SearchConfig(epochs=5).is_sized, SearchConfig().is_sized, SearchConfig(epochs=5, time_limit=2.0).is_sized
        (True, False, False)
        """
        if self.published:
            return True
        if self.time_limit is not None:
            return self.time_limit == 0
        sizes = (self.epochs, self.channels, self.cells, self.batch_size, self.weights)
        return any(size is not None for size in sizes) or any(path in self.settings for path in SIZES)

    def with_sizes(self) -> SearchConfig:
        """Return the same with sizes in their fields: from the settings, and the width and depth of a space object.

        >>> SearchConfig(settings={"weights.epochs": "3"}).with_sizes().epochs
        3
        """
        given = {name: self.settings[path] for path, name in SIZES.items() if path in self.settings}
        free: dict[str, Any] = {
            name: _whole(name, value) for name, value in given.items() if getattr(self, name) is None
        }
        if not isinstance(self.space, str):
            own = {"channels": self.space.channels, "cells": getattr(self.space, self.space.depth_knob)}
            free = {name: size for name, size in own.items() if getattr(self, name) is None} | free
        return replace(
            self, **free, settings={path: value for path, value in self.settings.items() if path not in SIZES}
        )

    @property
    def budget(self) -> BudgetChoice:
        """The budget of α: a word, or a factor for its learning rate.

        >>> SearchConfig(alpha_budget="2.5").budget
        2.5
        """
        return read_budget(self.alpha_budget)

    def sets_rate(self, method: Method) -> bool:
        """Tell whether the user set the learning rate of α: by a setting, or by an optimizer of their own.

        >>> from archgrad import recipes
        >>> SearchConfig(method="darts").sets_rate(recipes.darts())
        False
        """
        from archgrad.method.alpha_budget import rate_knobs

        own = method.arch_optimizer
        return own is not method.recipe_optimizer or any(
            f"arch_optimizer.{knob}" in self.settings for knob in rate_knobs(own)
        )

    def oracle_datasets(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the data sets whose table accuracies are shown: those asked for, or by default the searched one.

        >>> SearchConfig(data="cifar10").oracle_datasets(("cifar10", "cifar100"))
        ('cifar10',)
        >>> SearchConfig(data="imagenet16:PATH").oracle_datasets(("cifar10", "imagenet16-120"))
        ('imagenet16-120',)
        >>> SearchConfig(data="digits").oracle_datasets(("cifar10", "cifar100"))
        ()
        """
        if self.oracle == "auto":
            from archgrad.data.catalog import find_source

            searched = find_source(self.data)[0].in_tables if isinstance(self.data, str) else None
            return tuple(name for name in known if name == searched)
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
        """Return the shares of the data for weights and architecture, None if they share all of it."""
        from archgrad.data import split_fractions

        return split_fractions(self.split, level)

    @property
    def recipe(self) -> str | None:
        """The name of the published method; None for a user's own, and for an object unless it is ``published``."""
        from archgrad.recipes import RECIPES

        name = self.method if isinstance(self.method, str) else self.method.name if self.published else None
        return name if name in RECIPES else None

    def load_data(self, progress: Callable[[int, int], None] | None = None) -> Data:
        """Load the images; ``progress(done, total)`` is told how many are read."""
        from archgrad.config.images import load_data

        return load_data(self, progress)

    def settings_of(self, part: str) -> dict[str, Any]:
        """Return the settings of one part, by knob.

        >>> SearchConfig(settings={"weights.lr": 0.1}).settings_of("weights")
        {'lr': 0.1}
        """
        prefix = f"{part}."
        return {path.removeprefix(prefix): value for path, value in self.settings.items() if path.startswith(prefix)}

    @property
    def all_epochs(self) -> int | None:
        """The epochs of all stages together, of a complete configuration."""
        kept = self.settings.get("progressive.keep", (None,))
        stages = len(kept) if isinstance(kept, list | tuple) else len(str(kept).split(","))
        return None if self.epochs is None else self.epochs * stages


def _check_encodable(values: Mapping[str, Any]) -> None:
    """Reject text with bytes that are not UTF-8: a run directory could not write it down."""
    for name, value in values.items():
        for text in (name, value):
            if isinstance(text, str) and not text.isprintable() and any("\ud800" <= one <= "\udfff" for one in text):
                raise UserError(f"{shortened(name)} is {shortened(value)}, which is not valid UTF-8; use another name.")


def check_kinds(config: SearchConfig) -> None:
    """Reject anything but names and objects of the right kind for space, method, data, task and weights."""
    given = {name: getattr(config, name) for name in ("space", "method", "data", "task")}
    objects = {name: value for name, value in given.items() if not isinstance(value, str)}
    if not objects and config.weights is None:
        return  # without PyTorch, for a fast command
    from archgrad.data import Data
    from archgrad.method.bundle import Method
    from archgrad.spaces import SearchSpace
    from archgrad.tasks import BaseTask
    from archgrad.training.weight_training import WeightTraining

    kinds = {"space": SearchSpace, "method": Method, "data": Data, "task": BaseTask}
    for name, value in objects.items():
        if not isinstance(value, kinds[name]):
            raise UserError(
                f"{name} is {shortened(value)}; it must be a name (see `archgrad list {_LISTS[name]}`) or an object of "
                f"{class_path(kinds[name])}{', such as archgrad.Task(loss)' if name == 'task' else ''}."
            )
    if config.weights is not None and not isinstance(config.weights, WeightTraining):
        raise UserError(f"weights is {shortened(config.weights)}; it must be an archgrad.WeightTraining.")


_LISTS = {"space": "spaces", "method": "methods", "data": "data", "task": "tasks"}


def _whole(name: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise UserError(f"{name} is {value!r}; it must be a whole number.") from None


def _check_member(part: str) -> None:
    """Reject a setting whose part is not the name of a regularizer or a callback."""
    from archgrad.callbacks import CALLBACKS
    from archgrad.regularizers import REGULARIZERS

    if part not in REGULARIZERS and part not in CALLBACKS:
        raise unknown("part in a setting:", part, (*SETTABLE, *REGULARIZERS, *CALLBACKS))
