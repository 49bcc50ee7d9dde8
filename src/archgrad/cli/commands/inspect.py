"""``archgrad inspect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archgrad.cli import options
from archgrad.errors import UserError

__all__ = ["inspect"]


def inspect(
    folders: options.InspectedRuns,
    hypergradient: options.HypergradientErrors = False,
    discretization: options.Discretization = False,
    layers: options.Layers = False,
    warnings: options.WarningScores = False,
    out: options.HealthFile = None,
    batches: options.ComparedBatches = None,
    steps: options.ComparedSteps = None,
    device: options.MeasuringDevice = None,
    as_json: options.AsJson = False,
) -> None:
    """Look into a run: its health, how wrong its architecture gradient is, or what its discretization costs.

    Without options it shows the last epoch and a diagnosis, and draws the curves behind it.
    """
    from archgrad.cli import inspect_health, inspect_run
    from archgrad.cli.console import errors, print_json, say

    _check(locals(), folders)
    folder = folders[0]
    if hypergradient:
        found = inspect_run.inspect_estimates(folder, batches or 4, steps or 50, device, errors())
        show = inspect_run.show_estimates
    elif discretization:
        found, show = inspect_run.inspect_discretization(folder, device), inspect_run.show_discretization
    elif layers:
        found, show = inspect_run.inspect_layers(folder, batches or 4, device), inspect_run.show_layers
    elif warnings:
        found, show = inspect_health.inspect_warnings(folders), inspect_health.show_warnings
    else:
        found, show = inspect_health.inspect_diagnosis(folder, out), inspect_health.show_diagnosis
    if as_json:
        print_json(found)
    else:
        say(show(found))


def _check(given: Mapping[str, Any], folders: Sequence[Path]) -> None:
    """Reject options that do not belong together."""
    kinds = [name for name in ("hypergradient", "discretization", "layers", "warnings") if given[name]]
    if len(kinds) > 1:
        raise UserError(f"{' and '.join(f'--{kind}' for kind in kinds)} are different inspections; choose one.")
    kind = kinds[0] if kinds else None
    if given["steps"] is not None and kind != "hypergradient":
        raise UserError("--steps works only with --hypergradient; leave it out.")
    if given["batches"] is not None and kind not in ("hypergradient", "layers"):
        raise UserError("--batches works only with --hypergradient or --layers; leave it out.")
    if given["device"] is not None and kind not in ("hypergradient", "discretization", "layers"):
        raise UserError("--device works only with --hypergradient, --discretization or --layers; leave it out.")
    if given["out"] is not None and kind is not None:
        raise UserError(f"--out names the file for the curves, but --{kind} draws none; leave one of the two out.")
    if len(folders) > 1 and kind != "warnings":
        raise UserError(f"{len(folders)} runs are given, but only --warnings takes several; give one run.")
