"""The configuration of a search: the options of the command, the keys of a file, and what a resume compares.

Whatever is known of a field stands here, once: its type and range in its annotation, the rest in its :func:`option`.
"""

# ruff: noqa: RUF009 - an option is a field

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from archgrad.config.checks import check_config
from archgrad.errors import UserError, unknown
from archgrad.method.alpha_budget import BudgetChoice
from archgrad.method.reactions import Reaction
from archgrad.parts.fields import Count, NonNegative, Probability, Range, check_fields, plain_types, read_value

if TYPE_CHECKING:
    from archgrad.data import Data
    from archgrad.method.bundle import Method
    from archgrad.spaces import SearchSpace
    from archgrad.tasks import BaseTask
    from archgrad.training.schedule import Level
    from archgrad.training.weight_training import WeightTraining
else:  # they need PyTorch, which a fast command does without; the checks know them
    SearchSpace = Method = Data = BaseTask = WeightTraining = Any

__all__ = ["CHANGED", "HINTS", "KINDS", "METHOD_PARTS", "SIZES", "SIZE_FIELDS", "SearchConfig", "names_with"]

SIZES = {
    "weights.epochs": "epochs",
    "weights.batch_size": "batch_size",
    "space.channels": "channels",
    "space.cells": "cells",
    "space.cells_per_stage": "cells",
}
"""Settings that are also fields, with the names of the fields."""
SIZE_FIELDS = (*dict.fromkeys(SIZES.values()), "limit", "search_size")
"""The fields that a time limit chooses."""


def option(default: Any, text: str = "", unset: str = "", **about: Any) -> Any:
    """Return a field with what is known of it.

    ``text`` is its help in the command; a field without is no option there. ``unset`` says what None stands for.
    Others by name:

    - ``metavar``: how the help shows its value, if its type does not say that;
    - ``published``: the values that may stand beside a published search, for a field that the paper settles;
    - ``resumed``: what a resume compares, beside parts and data: "same" is always written down, "changed" only where
      the value is not the default;
    - ``trains``: False if only a search has it, and the training of one architecture has not;
    - ``part``: True if it names a part of the method.
    """
    return field(default=default, metadata={"help": text, "unset": unset, **about})


def _part(what: str, listed: str, more: str = "") -> Any:
    """Return the field that replaces a part of the method."""
    text = f"Replace the method's {what} (see `archgrad list {listed}`){more}."
    return option(None, text, "the method's", published=(None,), trains=False, part=True)


_CHOSEN = "chosen by --time-limit, or published"


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """One description of a search, shared by :func:`archgrad.search`, the command, run directories and resumes.

    ``space``, ``method``, ``data`` and ``task`` are names or objects. None means the default of the space, the method
    or the data. ``settings`` are knobs by path, such as ``{"arch_optimizer.lr": 0.001}``. ``weights`` replaces the
    published weight-training settings. ``needs`` names the objects that a run directory could not write down.
    """

    space: str | SearchSpace = option("nasbench201", "Search space (see `archgrad list spaces`).", trains=False)
    method: str | Method = option("gaea-largest", "Method (see `archgrad list methods`).", trains=False)
    relaxation: str | None = _part("relaxation", "relaxations")
    hypergradient: str | None = _part("architecture gradient", "hypergradients")
    arch_optimizer: str | None = _part("architecture optimizer", "optimizers")
    regularizer: str | None = _part("regularizers", "regularizers", ": NAME,NAME or none; +NAME,+NAME adds to them")
    discretizer: str | None = _part("discretizer", "discretizers")
    callback: str | None = None
    data: str | Data = option("digits", "Data (see `archgrad list data`), such as folder:PATH, or module:Name[:PATH].")
    data_dir: str | None = option(None, "Folder that holds cifar10 and cifar100.", "ARCHGRAD_DATA")
    task: str | BaseTask = option(
        "classification", "What the network predicts (see `archgrad list tasks`), or module:Name."
    )
    published: bool = option(
        False,
        "Search to the letter of the method's paper: its sizes, epochs and batches, all images (none held out), the "
        "bare rate of α. `archgrad list methods NAME --space SPACE` shows them, and how long it takes here.",
        trains=False,
    )
    epochs: Count | None = option(None, "Number of epochs.", _CHOSEN, published=(None,))
    seed: int = option(0, "Seed of all random numbers.", resumed="same")
    channels: Count | None = option(None, "Width of the first cells.", _CHOSEN, published=(None,))
    cells: Count | None = option(
        None, "Depth: cells per stage (nasbench201) or in total (other spaces).", _CHOSEN, published=(None,)
    )
    batch_size: Count | None = option(None, "Images per batch.", _CHOSEN, published=(None,))
    limit: Annotated[int, Range(1, 10**12)] | None = option(
        None, "Use only this many images; class proportions stay.", "chosen by --time-limit, or all", published=(None,)
    )
    image_size: Count | None = option(
        None, "Resize the images to this width and height.", "as they are", published=(None,)
    )
    search_size: Count | None = option(
        None,
        "Let the search, but no later training, see the images at this size.",
        "chosen by --time-limit: 16, or as they are",
        published=(None,),
        trains=False,
    )
    resize: Literal["crop", "pad", "stretch"] = option(
        "crop",
        "How images that are not square become square. crop: keep the middle. pad: add black borders. stretch: "
        "distort.",
    )
    strict: bool = option(False, "Refuse a broken image file, instead of leaving out up to 5 % of them.")
    split: str | tuple[float, float] | None = option(
        None,
        "Shares of the images that train weights and architecture, as 0.1:0.025.",
        "0.5:0.5; all for single level",
        published=(None,),
        trains=False,
    )
    held_out: Probability = option(
        None,
        "Share of the images that train no weights and measure each epoch; 0: none.",
        "0.1; 0 with --published",
        published=(0,),
        resumed="same",
    )
    device: str = option(
        "cpu",
        "cpu, cuda, cuda:1, …, mps, or auto: cuda if there is one, else mps, else cpu.",
        metavar="auto|cpu|cuda|cuda:N|mps",
    )
    precision: Literal["32", "bf16"] = option(
        "32",
        "Bits of the supernet's forward pass, by autocast: 32 or bf16. Second derivatives, differences of "
        "gradients, weights and architecture stay at 32.",
        resumed="changed",
    )
    deterministic: bool = option(False, "Use deterministic kernels only: an accelerator then repeats its bits.")
    threads: Count | None = option(None, "CPU threads.", "the fastest here and now")
    workers: Annotated[int, Range(0, 256)] = option(
        0, "Processes that read each part of the data ahead of time, if it is not in memory."
    )
    compile: bool = option(False, "Use torch.compile: slow to start, then faster.")
    checkpoint_cells: bool = option(
        False,
        "Compute the activations of each cell again in the backward pass instead of keeping them: less memory, more "
        "time, the same bits.",
        trains=False,
    )
    local_batch_norm: bool = option(
        False, "With several processes (torchrun): let each normalize by its own part of a batch.", resumed="changed"
    )
    time_limit: NonNegative | None = option(
        None,
        "Choose pixels, width, depth, epochs, batch size and number of images so that the search takes about this "
        "long on this machine; sizes that you give stay. 0: use the published sizes.",
        "5 if neither width, depth, epochs nor batch size is given, else 0",
        metavar="MINUTES",
        published=(None,),
    )
    on_collapse: Reaction = option(
        "warn",
        "What to do when the search collapses into skip connections or `none`. warn: say so. stop: end with the last "
        "sound architecture. switch: go back to it and continue with layer alignment. ignore: do not check.",
        published=("warn", "ignore"),
        resumed="same",
        trains=False,
    )
    alpha_budget: str | float = option(
        None,
        "How far the architecture may move. published: as far as in the published search; a shorter search gets a "
        "larger learning rate, unless you set the rate. always: also then. off: keep the rate. A number multiplies it.",
        "published",
        metavar="published|always|off|FACTOR",
        published=("off",),
        trains=False,
    )
    oracle: str = option(
        "auto",
        "Show the accuracy of the current cell from a table. auto: on the searched data, if there is a table. none: do "
        "not. Or name data sets: cifar10,cifar100,imagenet16-120.",
        metavar="auto|none|DATASET",
        trains=False,
    )
    weights: WeightTraining | None = option(None, published=(None,))
    needs: tuple[str, ...] = option((), trains=False)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, usual, published in (("held_out", 0.1, 0.0), ("alpha_budget", "published", "off")):
            if getattr(self, name) is None:
                object.__setattr__(self, name, published if self.published is True else usual)
        for one in fields(self):
            object.__setattr__(self, one.name, _as_plain(one.name, getattr(self, one.name)))
        self.budget  # noqa: B018 - it rejects a bad value
        check_fields(self, "{}")
        check_config(self)

    @property
    def compared(self) -> dict[str, Any]:
        """The fields that a resume compares, beside parts and data.

        >>> SearchConfig(seed=3, precision="bf16").compared
        {'seed': 3, 'held_out': 0.1, 'precision': 'bf16', 'on_collapse': 'warn'}
        """
        found = {name: KINDS[name][0](getattr(self, name)) for name in names_with("resumed", "same", "changed")}
        usual = {one.name: one.default for one in fields(self)}
        return {name: value for name, value in found.items() if name not in CHANGED or value != usual[name]}

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
        given = [name for name in (*SIZES.values(), "weights") if getattr(self, name) is not None]
        return bool(given) or any(path in self.settings for path in SIZES)

    def with_sizes(self) -> SearchConfig:
        """Return the same with sizes in their fields: from the settings, and the width and depth of a space object.

        >>> SearchConfig(settings={"weights.epochs": "3"}).with_sizes().epochs
        3
        """
        given = {name: self.settings[path] for path, name in SIZES.items() if path in self.settings}
        free = {name: read_value(name, value, int) for name, value in given.items() if getattr(self, name) is None}
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
        choice: BudgetChoice = read_value("alpha_budget", self.alpha_budget, BudgetChoice)
        return choice

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
        columns = self.settings_of("progressive").values()
        counts = [len(one) if isinstance(one, list | tuple) else len(str(one).split(",")) for one in columns]
        return None if self.epochs is None else self.epochs * max(counts, default=1)


def _as_plain(name: str, value: Any) -> Any:
    """Return a value in the type of its field if it is an equal one of NumPy, a path, a list or a device."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(value) if name == "precision" else int(value)  # 32 bits
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list):
        return tuple(value)
    return str(value) if type(value).__name__ == "device" else value


def names_with(key: str, *values: Any) -> list[str]:
    """Return the names of the fields whose :func:`option` says one of these values by this name.

    >>> names_with("resumed", "changed")
    ['precision', 'local_batch_norm']
    """
    return [one.name for one in fields(SearchConfig) if one.metadata.get(key) in values]


HINTS = get_type_hints(SearchConfig, include_extras=True)
"""The types of the fields."""
KINDS = {name: plain_types(kind) for name, kind in HINTS.items()}
"""The types that a file or a command line may give for each field."""
METHOD_PARTS = names_with("part", True)
"""The fields that name parts of the method."""
CHANGED = names_with("resumed", "changed")
"""The fields that a resume compares, and that earlier versions wrote down only where they are not the default."""
_HELP = [f"    - ``{one.name}``: {one.metadata['help']}" for one in fields(SearchConfig) if one.metadata.get("help")]
SearchConfig.__doc__ = "\n".join([SearchConfig.__doc__ or "", *_HELP])
