"""The options of commands that are fields of a configuration, with their help texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from archgrad.config.search_config import HINTS, KINDS, SearchConfig

__all__ = [
    "FIT", "GROUPS", "STUDY", "TRAINING", "AsJson", "Callbacks", "GroupedCommand", "Settings", "TensorBoard",
    "callback_names", "with_config_options",
]  # fmt: skip

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART.KNOB=VALUE",
        help="Set a knob of the training: weights.lr=0.05, weights.ema_decay=0.999, supernet.drop_path=0.2, "
        "augmentation.cutout=16. Repeatable. [the preset's]",
    ),
]
"""Knobs of a training."""
Callbacks = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Add this callback (see `archgrad list callbacks`). Repeatable. [the standard ones]"
    ),
]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Write event files for TensorBoard: --callback tensorboard. [off]")
]


def callback_names(given: list[str] | None, tensorboard: bool) -> str | None:
    """Return the callbacks of the command line as a configuration names them; None if there are none."""
    return ",".join([*(given or []), *(["tensorboard"] if tensorboard else [])]) or None


_FIELDS = {one.name: one for one in fields(SearchConfig)}
_IMAGES = ("data_dir", "limit", "image_size", "resize", "strict")
_MACHINE = ("device", "precision", "threads", "workers")
_SIZES = ("epochs", "channels", "cells", "batch_size")

Defaults = Mapping[str, str]
"""The options of a command that are fields, with its own words for their defaults; "" stands for those of the field."""

SEARCH: Defaults = dict.fromkeys((name for name, one in _FIELDS.items() if one.metadata.get("help")), "")
TRAINING: Defaults = {
    **{name: "" for name in SEARCH if _FIELDS[name].metadata.get("trains", True) and name != "time_limit"},
    **dict.fromkeys(_SIZES, "the preset's"),
    "data": "those of the run, or digits",
    "seed": "0, the first of --seeds",
    "limit": "all",
    "held_out": "0.1, or 0 if the preset is a paper's and there are test images",
}
FIT: Defaults = {
    **dict.fromkeys(("data", "task", *_IMAGES, *_MACHINE, "seed"), ""),
    "limit": "all",
    "image_size": "their own, at most 32, or 64 with two hours",
    "precision": "bf16 for trainings where that is faster",
}
STUDY: Defaults = {
    **dict.fromkeys(
        (*_SIZES, *_IMAGES, *_MACHINE, "search_size", "split", "held_out", "deterministic", "time_limit"), ""
    ),
    **dict.fromkeys(("on_collapse", "alpha_budget", "oracle"), ""),
    "threads": "1 for each run",
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Most used options": (
        "methods", "without", "data", "space", "method", "spaces", "preset", "protocol", "searches", "budget", "seeds",
        "seed", "voters", "test", "time_limit", "published", "max_params", "max_madds", "max_latency", "compare",
        "class_weights", "target", "out", "dry_run",
    ),
    "Where the runs are computed": ("engine", "processes", "address", "partition", "minutes"),
    "Size": ("channels", "cells", "stem", "epochs", "batch_size", "limit"),
    "Data": ("data_dir", "task", "image_size", "search_size", "resize", "strict", "split", "held_out"),
    "Method and knobs": (
        "settings", "relaxation", "hypergradient", "arch_optimizer", "regularizer", "discretizer", "alpha_budget",
        "start_from",
    ),
    "Watching": ("on_collapse", "oracle", "callback", "tensorboard"),
    "Machine": (
        "device", "precision", "threads", "workers", "compile", "checkpoint_cells", "deterministic", "local_batch_norm",
    ),
    "Files and output": ("config", "measure", "table", "no_run", "as_json", "help"),
}  # fmt: skip
"""The headings in the help of a command with many options, and the names of the options below each, in order."""
_FEW = 12
"""A command with at most so many options needs no headings."""


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under the headings of ``GROUPS``, the most used first."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, which is never cut."""
        return super().get_short_help_str(limit=1000)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options of each group."""
        shown = {one.name: one for one in self.get_params(ctx) if one.get_help_record(ctx) is not None}
        options = [name for name, one in shown.items() if one.param_type_name == "option"]
        sections = {"Arguments": [name for name in shown if name not in options]}
        if len(options) <= _FEW:
            sections["Options"] = options
        else:
            sections |= {title: [name for name in names if name in options] for title, names in GROUPS.items()}
            sections["Other options"] = [name for name in options if not any(name in own for own in GROUPS.values())]
        for title, names in sections.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([shown[name].get_help_record(ctx) for name in names])


def with_config_options(command: Callable[..., None], defaults: Defaults = SEARCH) -> Callable[..., None]:
    """Give a command options that are fields of :class:`~archgrad.config.SearchConfig`.

    The command gets them as keyword arguments; None stands for an option that was not given.
    """
    added = {name: _option(name, default) for name, default in defaults.items()}
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in added.items()
    ]
    command.__annotations__ = {**added, **command.__annotations__}
    command.__signature__ = signature.replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
    return command


def _option(name: str, default: str) -> Any:
    """Return the type of a field's option, with its help and, in brackets, its default."""
    one, kind = _FIELDS[name], HINTS[name]
    usual = f"no-{name.replace('_', '-')}" if one.default is False else one.default
    text = f"{one.metadata['help']} [{default or one.metadata['unset'] or usual}]"
    choices = "|".join(get_args(kind)) if get_origin(kind) is Literal else None
    return Annotated[KINDS[name][0] | None, typer.Option(help=text, metavar=one.metadata.get("metavar", choices))]
