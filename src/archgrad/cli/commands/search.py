"""``archgrad search`` and ``archgrad resume``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.cli import options

if TYPE_CHECKING:
    from archgrad.config import SearchConfig

__all__ = ["resume", "search"]


def search(
    space: options.Space = None,
    method: options.Method = None,
    relaxation: options.Relaxation = None,
    hypergradient: options.Hypergradient = None,
    arch_optimizer: options.ArchOptimizer = None,
    regularizer: options.Regularizer = None,
    discretizer: options.Discretizer = None,
    callback: options.CallbackNames = None,
    data: options.Data = None,
    epochs: options.Epochs = None,
    seed: options.Seed = None,
    channels: options.Channels = None,
    cells: options.Cells = None,
    batch_size: options.BatchSize = None,
    limit: options.Limit = None,
    image_size: options.ImageSize = None,
    fit: options.Fit = None,
    split: options.Split = None,
    held_out: options.HeldOut = None,
    data_dir: options.DataDir = None,
    settings: options.Settings = None,
    config: options.ConfigFile = None,
    out: options.RunDir = None,
    time_limit: options.TimeLimit = None,
    device: options.Device = None,
    threads: options.Threads = None,
    compile: options.Compile = None,  # noqa: A002 - the name of the option
    on_collapse: options.OnCollapse = None,
    alpha_budget: options.AlphaBudget = None,
    oracle: options.Oracle = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Search for an architecture."""
    chosen = _config(locals())
    if dry_run:
        _estimate(chosen, as_json)
    else:
        _run(chosen, out, False, as_json)


def resume(folder: options.UnfinishedRun, as_json: options.AsJson = False) -> None:
    """Continue a search that was stopped or killed, to the same result."""
    from archgrad.config import read_run_config

    _run(read_run_config(folder), folder, True, as_json)


def _config(given: Mapping[str, Any]) -> SearchConfig:
    """Return the configuration that the options of ``search`` describe; they override those of the file."""
    from archgrad.config import SearchConfig, read_config
    from archgrad.knobs import parse_setting

    values = read_config(given["config"]) if given["config"] is not None else {}
    others = ("config", "settings", "callback", "out", "dry_run", "as_json")
    values |= {name: value for name, value in given.items() if name not in others and value is not None}
    if given["callback"]:
        values["callback"] = ",".join(given["callback"])
    values["settings"] = {**values.get("settings", {}), **dict(map(parse_setting, given["settings"] or []))}
    return SearchConfig(**values)


def _estimate(config: SearchConfig, as_json: bool) -> None:
    from archgrad.cli.console import errors, print_json, results, say

    console = errors() if as_json else results()
    say("loading PyTorch", console)
    from archgrad.cli.dry_run import dry_run, show_dry_run

    found = dry_run(config, console)
    if as_json:
        print_json(found)
    else:
        say(show_dry_run(found))


def _run(config: SearchConfig, out: Path | None, resuming: bool, as_json: bool) -> None:
    from archgrad.cli.console import errors, print_json, results, say

    console = errors() if as_json else results()
    say("loading PyTorch", console)  # before the import, which takes seconds
    from archgrad.cli.final_report import show_final_report
    from archgrad.cli.search import run

    summary = run(config, out, resuming, console)
    if as_json:
        print_json(summary)
    else:
        say(show_final_report(summary))
