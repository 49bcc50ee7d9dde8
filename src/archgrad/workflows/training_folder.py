"""What a training leaves on disk beside the files of the loop: its plan and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archgrad.config import SearchConfig, config_to_toml, config_with, named_config, read_run_config
from archgrad.config.resolve import resolve
from archgrad.data import Data
from archgrad.distributed.processes import in_first_process
from archgrad.errors import UserError, look_up, shortened
from archgrad.system.files import exists, list_folder, read_text, write_text
from archgrad.workflows.presets import PRESETS
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training_plan import IN_PYTHON, TrainingPlan, seeds_of

__all__ = ["PLAN", "RESULT", "begin", "check_begun", "read_plan", "write_result"]

PLAN, RESULT = "training.json", "result.json"
_MOST = 1 << 20


@in_first_process
def begin(folder: Path, plan: TrainingPlan, data: Data) -> None:
    """Write the plan of a training with several seeds; reject a folder that holds anything else."""
    if exists(folder) and any(list_folder(folder)):
        raise UserError(
            f"{folder} is not empty; choose a new folder, or continue what is there: `archgrad resume {folder}`."
        )
    described = config_to_toml(named_config(resolve(plan.config), data))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "config.toml", described)
        write_text(folder / PLAN, plan.to_text())
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror or error}); choose another folder.") from error


def check_begun(folder: Path, plan: TrainingPlan) -> None:
    """Reject a folder without a training, or with one of other seeds."""
    seeds = _read(folder)["seeds"]
    if list(plan.seeds) != seeds:
        raise UserError(
            f"{folder} has a training with the seeds {shortened(seeds)}, not {shortened(list(plan.seeds))}; give the "
            f"same ones, or another folder."
        )


def read_plan(folder: Path, objects: Mapping[str, Any], test: Any = None) -> TrainingPlan:
    """Read the plan of a begun training; ``objects`` and ``test`` are what its files could not name."""
    content = _read(folder)
    preset, seeds, named = content["preset"], content["seeds"], content["test"]
    if test is None and named == IN_PYTHON:
        raise UserError(f"the test images of {folder} were given in Python; give them again: {_again('test')}.")
    config = read_run_config(folder)
    missing = [name for name in config.needs if name not in objects]
    if missing:
        raise UserError(
            f"the {' and '.join(missing)} of {folder} cannot be named in a file; give them again in Python: "
            f"{_again(*missing)}."
        )
    config = config_with(config, _with_architecture(config, objects))
    return TrainingPlan(config, preset, seeds_of(seeds, 0), named if test is None else test)


def _read(folder: Path) -> dict[str, Any]:
    """Return the checked content of a plan."""
    path = folder / PLAN
    if not exists(path):
        around = folder.resolve().parent
        raise UserError(
            f"{folder} holds one seed of a training; continue all of it with `archgrad resume {around}`."
            if exists(around / PLAN)
            else f"{folder} holds no training: it has no {PLAN}; start one with `archgrad train`."
        )
    try:
        content = json.loads(read_text(path, "training plan", _MOST))
        preset, seeds, test = content["preset"], content["seeds"], content["test"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} is no plan of a training; start a new one in another folder.") from error
    if not isinstance(test, str | None) or not isinstance(preset, str) or not isinstance(seeds, list):
        raise UserError(f"{path} has a wrong preset, seeds or test; start a new training in another folder.")
    look_up("preset", preset, PRESETS)
    return {"preset": preset, "seeds": seeds, "test": test}


def _again(*names: str) -> str:
    return f"archgrad.resume_training(DIR, {', '.join(f'{name}=…' for name in names)})"


def _with_architecture(config: SearchConfig, objects: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the objects with the architecture and the size of the training in the user's own space."""
    space = objects.get("space")
    if space is None or isinstance(space, SingleArchitecture):
        return objects
    sizes: dict[str, Any] = {"channels": config.channels, "cells": config.cells}
    return {**objects, "space": SingleArchitecture(**{**config.settings_of("space"), **sizes, "of": space})}


def write_result(folder: Path, result: TrainResult) -> None:
    """Write ``result.json``."""
    write_text(folder / RESULT, json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
