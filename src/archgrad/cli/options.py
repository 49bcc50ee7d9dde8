"""The options of commands that are fields of a configuration, with their help texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from archgrad.config.toml import KINDS

__all__ = ["FIT", "GROUPS", "STUDY", "TRAINING", "AsJson", "GroupedCommand", "Settings", "with_config_options"]

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

_HELP = {
    "space": "Search space (see `archgrad list spaces`). [nasbench201]",
    "method": "Method (see `archgrad list methods`). [gaea-simultaneous]",
    "relaxation": "Replace the method's relaxation (see `archgrad list relaxations`). [the method's]",
    "hypergradient": "Replace the method's architecture gradient (see `archgrad list hypergradients`). [the method's]",
    "arch_optimizer": "Replace the method's architecture optimizer (see `archgrad list optimizers`). [the method's]",
    "regularizer": "Replace the method's regularizers (see `archgrad list regularizers`): NAME,NAME or none; "
    "+NAME,+NAME adds to them. [the method's]",
    "discretizer": "Replace the method's discretizer (see `archgrad list discretizers`). [the method's]",
    "data": "Data (see `archgrad list data`), or module:Name[:PATH]. [digits]",
    "data_dir": "Folder that holds cifar10 and cifar100. [ARCHGRAD_DATA]",
    "task": "What the network predicts (see `archgrad list tasks`), or module:Name. [classification]",
    "published": "Search to the letter of the method's paper: its sizes, epochs and batches, all images (none held "
    "out), the bare rate of α. `archgrad list methods NAME --space SPACE` shows them, and how long it takes here. "
    "[no-published]",
    "epochs": "Epochs of the search. [chosen by --time-limit, or published]",
    "seed": "Seed of all random numbers. [0]",
    "channels": "Width of the first cells. [chosen by --time-limit, or published]",
    "cells": "Depth: cells per stage (nasbench201) or in total (other spaces). [chosen by --time-limit, or published]",
    "batch_size": "Images per batch. [chosen by --time-limit, or published]",
    "limit": "Use only this many images; class proportions stay. [chosen by --time-limit, or all]",
    "image_size": "Resize the images to this width and height. [as they are]",
    "resize": "How images that are not square become square. crop: keep the middle. pad: add black borders. stretch: "
    "distort. [crop]",
    "split": "Shares of the images that train weights and architecture, as 0.1:0.025. [0.5:0.5; all for single level]",
    "held_out": "Share of the images that train no weights and measure each epoch; 0: none. [0.1; 0 with --published]",
    "device": "cpu, cuda, cuda:1, …, mps, or auto: cuda if there is one, else mps, else cpu. [cpu]",
    "precision": "Bits of the supernet's forward pass, by autocast: 32, bf16 or 16. Second derivatives, differences of "
    "gradients, weights and architecture stay at 32. [32]",
    "deterministic": "Use deterministic kernels only: an accelerator then repeats its bits. [no-deterministic]",
    "threads": "CPU threads. [the fastest here and now]",
    "workers": "Processes that read each part of the data ahead of time, if it is not in memory. [0]",
    "local_batch_norm": "With several processes (torchrun): let each normalize by its own part of a batch. "
    "[no-local-batch-norm]",
    "compile": "Use torch.compile: slow to start, then faster. [no-compile]",
    "checkpoint_cells": "Compute the activations of each cell again in the backward pass instead of keeping them: less "
    "memory, more time, the same bits. [no-checkpoint-cells]",
    "time_limit": "Choose width, depth, epochs, batch size and number of images so that the search takes about this "
    "long on this machine; sizes that you give stay. 0: use the published sizes. [5 if neither width, depth, epochs "
    "nor batch size is given, else 0]",
    "on_collapse": "What to do when the search collapses into skip connections or `none`. warn: say so. stop: end with "
    "the last sound architecture. switch: go back to it and continue with layer alignment. ignore: do not check. "
    "[warn]",
    "alpha_budget": "How far the architecture may move. published: as far as in the published search; a shorter search "
    "gets a larger learning rate, unless you set the rate. always: also then. off: keep the rate. A number multiplies "
    "it. [published]",
    "oracle": "Show the accuracy of the current cell from a table. auto: on the searched data, if there is a table. "
    "none: do not. Or name data sets: cifar10,cifar100,imagenet16-120. [auto]",
}
_PLACEHOLDERS = {
    "resize": "crop|pad|stretch",
    "device": "auto|cpu|cuda|cuda:N|mps",
    "precision": "32|bf16|16",
    "time_limit": "MINUTES",
    "on_collapse": "warn|stop|switch|ignore",
    "alpha_budget": "published|always|off|FACTOR",
    "oracle": "auto|none|DATASET",
}


TRAINING: Mapping[str, str] = {
    "data": "Training images (see `archgrad list data`), or module:Name[:PATH]. [those of the run, or digits]",
    **{name: _HELP[name] for name in ("data_dir", "task")},
    "epochs": "Epochs of the training. [the preset's]",
    "seed": "First seed. [0]",
    "channels": "Width of the first cells. [the preset's]",
    "cells": "Depth: cells per stage (nasbench201) or in total (other spaces). [the preset's]",
    "batch_size": "Images per batch. [the preset's]",
    "limit": "Use only this many training images; class proportions stay. [all]",
    **{name: _HELP[name] for name in ("image_size", "resize")},
    "held_out": "Share of the training images that measures each epoch and trains nothing; 0: none. [0.1, or 0 if the "
    "preset is a paper's and there are test images]",
    **{name: _HELP[name] for name in ("device", "precision", "deterministic", "threads", "workers")},
    **{name: _HELP[name] for name in ("local_batch_norm", "compile")},
    "time_limit": "Choose the epochs so that each seed takes about this long here. [5 with the preset quick]",
}
"""The options of a training, with their help texts."""

FIT: Mapping[str, str] = {
    "data": "Images with their classes (see `archgrad list data`), such as folder:PATH. [digits]",
    **{name: TRAINING[name] for name in ("data_dir", "limit", "resize", "device", "precision", "threads", "workers")},
    "seed": "Seed of all random numbers. [0]",
    "image_size": "Resize the images to this width and height. [their own, at most 32, or 64 with two hours]",
}
"""The options of a fit, with their help texts."""


_STUDY = (
    "data_dir", "epochs", "channels", "cells", "batch_size", "limit", "image_size", "resize", "split", "held_out",
    "device", "precision", "deterministic", "workers", "time_limit", "on_collapse", "alpha_budget", "oracle",
)  # fmt: skip
STUDY: Mapping[str, str] = {
    **{name: _HELP[name] for name in _STUDY},
    "threads": "Threads of each run. [1]",
}
"""The options of all runs of a study, with their help texts."""


GROUPS: Mapping[str, tuple[str, ...]] = {
    "Most used options": (
        "methods", "without", "data", "space", "method", "spaces", "preset", "protocol", "searches", "budget", "seeds",
        "seed", "test", "time_limit", "published", "max_params", "max_madds", "max_latency", "compare",
        "target", "out", "dry_run",
    ),
    "Where the runs are computed": ("engine", "processes", "address", "partition", "minutes"),
    "Size": ("channels", "cells", "stem", "epochs", "batch_size", "limit"),
    "Data": ("data_dir", "task", "image_size", "resize", "split", "held_out"),
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


def with_config_options(command: Callable[..., None], helps: Mapping[str, str] = _HELP) -> Callable[..., None]:
    """Give a command an option for each field of :class:`~archgrad.config.SearchConfig` that has a help text.

    The command gets them as keyword arguments; None stands for an option that was not given.
    """
    added = {
        name: Annotated[KINDS[name][0] | None, typer.Option(help=text, metavar=_PLACEHOLDERS.get(name))]
        for name, text in helps.items()
    }
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in added.items()
    ]
    command.__annotations__ = {**added, **command.__annotations__}
    command.__signature__ = signature.replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
    return command
