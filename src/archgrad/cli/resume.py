"""Continue any run on the command line, with its progress and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.blackbox import resume_blackbox
from archgrad.cli.compare import StudyProgress, show_study
from archgrad.cli.console import errors, print_result, results, say
from archgrad.cli.final_report import show_final_report
from archgrad.cli.fit import fit_with_progress, show_fit
from archgrad.cli.search import run
from archgrad.cli.select import select_with_progress, show_selection
from archgrad.cli.train import show_training, train_with_progress
from archgrad.cli.vote import is_vote, show_vote, vote_content
from archgrad.config import read_run_config
from archgrad.config.naming import config_with
from archgrad.distributed.processes import joined
from archgrad.studies.study import check_variants, run_study
from archgrad.system.run_kind import RunKind
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.select import SelectionPlan
from archgrad.workflows.training import Training

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["RESUMED"]

_Given = Mapping[str, Any]


def _search(folder: Path, given: _Given, console: Console, as_json: bool) -> None:
    config = config_with(read_run_config(folder), given)
    with joined(config.device):
        print_result(run(config, folder, True, console), show_final_report, as_json)


def _training(folder: Path, given: _Given, console: Console, as_json: bool) -> None:
    training = Training.read(folder, given)
    print_result(train_with_progress(training, folder, True, console), show_training, as_json)


def _selection(folder: Path, given: _Given, console: Console, as_json: bool) -> None:
    plan = SelectionPlan.read(folder, given)
    print_result(select_with_progress(plan, folder, True, console), show_selection, as_json)


def _fit(folder: Path, given: _Given, console: Console, as_json: bool) -> None:
    begun = FitFolder.read(folder)
    print_result(fit_with_progress(begun.request(given), begun, folder, console), show_fit, as_json)


def _study(folder: Path, given: _Given, console: Console, as_json: bool) -> None:
    with StudyProgress(errors()) as watch:
        study = run_study(folder, None, watch=watch, tell=lambda text: say(text, errors()))
    if is_vote(study):
        check_variants(study)
        print_result(vote_content([folder], folder), show_vote, as_json)
        return
    show_study(study, None, "json" if as_json else None, results())
    check_variants(study)


def _blackbox(folder: Path, given: _Given, console: Console, as_json: bool) -> None:
    found = resume_blackbox(folder)
    content = {"genotype": str(found.genotype), "queries": found.queries, "run": str(folder)}
    print_result(content, lambda content: f"{content['genotype']}, after {content['queries']} queries", as_json)


RESUMED: Mapping[RunKind, Callable[[Path, _Given, Console, bool], None]] = {
    "search": _search,
    "training": _training,
    "selection": _selection,
    "fit": _fit,
    "study": _study,
    "blackbox": _blackbox,
}
"""How each kind of run continues."""
