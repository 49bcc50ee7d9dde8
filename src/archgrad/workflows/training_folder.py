"""What a training leaves on disk beside the files of the loop: its plan and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archgrad.config import config_to_toml, config_with, named_config, read_run_config
from archgrad.data import Data
from archgrad.distributed.processes import in_first_process
from archgrad.errors import UserError, look_up, shortened
from archgrad.files import exists, list_folder, read_text, write_text
from archgrad.workflows.presets import PRESETS
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training_plan import IN_PYTHON, TrainingPlan, seeds_of

__all__ = ["PLAN", "RESULT", "begin", "read_plan", "write_result"]

PLAN, RESULT = "training.json", "result.json"
_MOST = 1 << 20


@in_first_process
def begin(folder: Path, plan: TrainingPlan, data: Data, resume: bool) -> None:
    """Write the plan of a training with several seeds; reject a folder that holds anything else."""
    if resume and exists(folder / PLAN):
        return
    if exists(folder) and any(list_folder(folder)):
        raise UserError(
            f"{folder} is not empty; choose a new folder, or continue what is there: `archgrad resume {folder}`."
        )
    config = plan.config
    space, method = config.build_space(), config.build_method()
    described = config_to_toml(named_config(config, space, method, config.build_training(space, method), data))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "config.toml", described)
        write_text(folder / PLAN, plan.to_text())
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror or error}); choose another folder.") from error


def read_plan(folder: Path, objects: Mapping[str, Any], test: Any = None) -> TrainingPlan:
    """Read the plan of a begun training; ``objects`` and ``test`` are what its files could not name."""
    path = folder / PLAN
    if not exists(path):
        raise UserError(f"{folder} holds no training: it has no {PLAN}; start one with `archgrad train`.")
    text = read_text(path, "training plan", _MOST)
    try:
        content = json.loads(text)
        preset, seeds, named = content["preset"], content["seeds"], content["test"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} is no plan of a training; start a new one in another folder.") from error
    if not isinstance(named, str | None):
        raise UserError(f"test in {path} is {shortened(named)}; it must be the name of data.")
    if test is None and named == IN_PYTHON:
        raise UserError("this training was given its test images in Python; give them again with test=….")
    look_up("preset", preset, PRESETS)
    config = config_with(read_run_config(folder), objects)
    return TrainingPlan(config, preset, seeds_of(seeds, 0), named if test is None else test)


def write_result(folder: Path, result: TrainResult) -> None:
    """Write ``result.json``."""
    write_text(folder / RESULT, json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
