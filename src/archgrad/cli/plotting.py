"""Reading the records of runs, and plotting them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archgrad.cli.running import config_of
from archgrad.errors import UserError, unknown
from archgrad.report import Curve, curve_of, draw_curves

__all__ = ["plot_runs", "records_of"]


def plot_runs(folders: Sequence[Path], measure: str, out: Path) -> dict[str, Curve]:
    """Draw one measure of several runs into a file; runs of one method on one space are seeds of one curve."""
    groups: dict[str, list[list[dict[str, Any]]]] = {}
    for folder in folders:
        groups.setdefault(_label(folder), []).append(_measured(folder, measure))
    curves = {label: curve_of(histories, measure) for label, histories in groups.items()}
    for label, curve in curves.items():
        if not curve:
            raise UserError(f"the runs of {label} have no epoch in common, so there is nothing to plot.")
    draw_curves(curves, measure, out)
    return curves


def _label(folder: Path) -> str:
    config = config_of(folder)
    named = [part for part in (config.relaxation, config.hypergradient, config.arch_optimizer) if part is not None]
    return f"{config.method} ({', '.join(named)})" if named else config.method


def _measured(folder: Path, measure: str) -> list[dict[str, Any]]:
    records = records_of(folder)
    if not records:
        raise UserError(f"no epoch of {folder} is finished; leave it out, or resume it first.")
    if not any(measure in record for record in records):
        known = sorted({name for record in records for name, value in record.items() if isinstance(value, int | float)})
        raise unknown(f"measure in {folder}:", measure, known)
    return records


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Return a run's records, one for each finished epoch."""
    path = folder / "metrics.jsonl"
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if all({"epoch", "genotype"} <= set(record) for record in records):
            return records
    except (OSError, ValueError, TypeError):
        pass
    raise UserError(f"{path} is missing or damaged; `archgrad resume {folder}` writes it anew.")
