"""Running a configured search: from names to a run directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.config import RunConfig
from archgrad.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.diagnostics import Diagnostic
    from archgrad.loop import SearchResult
    from archgrad.spaces import SearchSpace

__all__ = ["free_folder", "run"]


def run(config: RunConfig, out: Path, resume: bool, console: Console) -> dict[str, Any]:
    """Run or resume a search, draw what it found, and return the content of ``summary.json``."""
    from archgrad.cli.console import say
    from archgrad.cli.progress import progress_for
    from archgrad.data import parse_split
    from archgrad.loop import search

    config = _on_this_machine(config)
    space, method = config.build_space(), config.build_method()
    training, split = config.build_training(space), parse_split(config.split)
    method.check(space)
    diagnostics = _diagnostics(space, console)
    say(f"{config.method} on {config.space}, data {config.data}, seed {config.seed}, run directory {out}", console)
    data = config.load_data()
    if not resume:
        _claim(config, out)
    progress = progress_for(console)
    try:
        result = search(
            space,
            method,
            data,
            seed=config.seed,
            training=training,
            batch_size=config.batch_size,
            split=split,
            device=config.device,
            out=out,
            resume=resume,
            listeners=[progress],
            diagnostics=diagnostics,
            compile=config.compile,
        )
    finally:
        progress.close()
    _draw(result, out, console)
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return summary | {"run": str(out)}


def free_folder(config: RunConfig) -> Path:
    """Return a folder under ``runs/`` that says what is in it and is not taken."""
    data = config.data.partition(":")[0]
    base = f"{config.space}-{config.method}-{data}-seed{config.seed}"
    candidates = (Path("runs") / (base if number == 1 else f"{base}-{number}") for number in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def _claim(config: RunConfig, out: Path) -> None:
    from archgrad.loop import RunFolder

    RunFolder(out, {}).claim()
    config.save(out / "config.toml")


def _on_this_machine(config: RunConfig) -> RunConfig:
    """Check the device, and fix the number of threads, on which the last bits of a sum depend."""
    import torch

    try:
        torch.zeros(1, device=config.device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the device {config.device!r} cannot be used ({reason}); try --device cpu.") from error
    if config.threads is None:
        return replace(config, threads=torch.get_num_threads())
    if config.threads < 1:
        raise UserError(f"threads is {config.threads}; it must be at least 1.")
    torch.set_num_threads(config.threads)
    return config


def _diagnostics(space: SearchSpace, console: Console) -> list[Diagnostic]:
    from archgrad import benchmarks, diagnostics
    from archgrad.cli.console import say

    watched = list(diagnostics.standard())
    table = benchmarks.find_table() if space.name == "nasbench201" else None
    if table is not None:
        watched.append(benchmarks.oracle(table))
        say(f"oracle accuracy: {table.kind}, from {table.source}", console)
    return watched


def _draw(result: SearchResult, out: Path, console: Console) -> None:
    from archgrad import report
    from archgrad.cli.console import say

    drawn = report.draw(result.genotype, out / "cell.svg")
    if drawn.suffix == ".txt":
        say(f"Graphviz is not installed, so the cell is drawn as text in {drawn}", console)
