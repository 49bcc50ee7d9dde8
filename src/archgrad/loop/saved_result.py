"""Write the result of a search as a run directory, and read it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archgrad.callbacks import Record
from archgrad.config import SearchConfig, config_with, read_run_config
from archgrad.data import as_data
from archgrad.errors import UserError
from archgrad.loop.folder import RunFolder, StageOf
from archgrad.loop.progressive import Stages, conclude, with_stage
from archgrad.loop.restore import restore_run
from archgrad.loop.result import SearchedStages, SearchResult, result_of
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState
from archgrad.system.files import as_path, read_text

__all__ = ["load_result", "reopen", "save_result"]


def save_result(result: SearchResult, folder: Path | str) -> Path:
    """Write a run directory from the state in memory."""
    searched, path = result.stages, as_path("folder", folder)
    home = RunFolder(path, searched.whole.identity, {"config.toml": searched.describe()})
    with home.opened(resume=False):
        if searched.whole.method.progressive is None:
            _write(home, searched.runs[0][1])
            return path
        home.begin()
        count = len(searched.runs)
        for number, (setup, state) in enumerate(searched.runs, 1):
            own = home.stage(setup.identity, StageOf(path, number, count))
            with own.opened(resume=False):
                _write(own, state)
        conclude(home, result.history, result.genotype, searched.whole.weights.epochs, count, result.seconds)
    return path


def _write(folder: RunFolder, state: SearchState) -> None:
    folder.on_search_start(state)
    folder.on_search_end(state)


def load_result(folder: Path | str, given: Mapping[str, Any]) -> SearchResult:
    """Read a finished search from its run directory; ``given`` has objects that it could not name, or None."""
    home = as_path("folder", folder)
    described = read_run_config(home)
    objects = {name: as_data(one) if name == "data" else one for name, one in given.items() if one is not None}
    config = config_with(described, objects)
    found = reopen(config, home)
    plan = found.whole.method.progressive
    setup, state = found.runs[-1]
    if not state.complete or (plan is not None and len(found.runs) < len(plan.stages)):
        raise UserError(f"the search in {home} is not finished; `archgrad resume {home}` finishes it.")
    result = replace(result_of(setup, state, found.describe), stages=found)
    if plan is None:
        return result
    records: list[Record] = []
    for number, (_, one) in enumerate(found.runs, 1):
        records = with_stage(records, number, one.history)
    return replace(result, history=tuple(records), seconds=sum(one.seconds for _, one in found.runs))


def reopen(config: SearchConfig, home: Path) -> SearchedStages:
    """Restore the last saved state of a run, or of every stage that has begun, without changing the run."""
    space, method, images = config.build_space(), config.build_method(), config.load_data()
    whole = Setup.of(space, method, images, config, home)

    def describe() -> str:
        return read_text(home / "config.toml", "configuration file")

    if method.progressive is None:
        return SearchedStages(whole, ((whole, restore_run(whole, home)),), describe)
    stages = Stages(config, space, method, method.progressive, images)
    return SearchedStages(whole, tuple(stages.begun(home)), describe)
