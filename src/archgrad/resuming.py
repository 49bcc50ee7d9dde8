"""Continue whatever a run directory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archgrad.blackbox import resume_blackbox
from archgrad.callbacks import Callback
from archgrad.data import as_data
from archgrad.errors import UserError
from archgrad.loop import resume_search
from archgrad.method.bundle import Method
from archgrad.spaces import SearchSpace
from archgrad.studies.study import resume_study
from archgrad.system.files import as_path
from archgrad.system.run_kind import RunKind, read_kind
from archgrad.tasks import BaseTask
from archgrad.workflows.fit import run_fit
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.select import SelectionPlan, run_selection
from archgrad.workflows.train import run_training
from archgrad.workflows.training import Training

__all__ = ["check_given", "resume"]

_TRAINED = ("space", "data", "task", "test", "workers")
_TAKES: Mapping[RunKind, tuple[str, ...]] = {
    "search": ("space", "method", "data", "task", "workers"),
    "training": _TRAINED,
    "selection": _TRAINED,
    "fit": ("data", "test", "task", "workers"),
    "blackbox": (),
    "study": (),
}
"""What may be given again to continue each kind of run."""


def resume(
    folder: Path | str,
    *,
    space: SearchSpace | None = None,
    method: Method | None = None,
    data: Any = None,
    task: BaseTask | None = None,
    test: Any = None,
    workers: int | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Any:
    """Continue the run in a directory, to the same bits as if it had never stopped, and return its result.

    The run is a search (the result is an :class:`archgrad.SearchResult`), a training (:class:`archgrad.TrainResult`), a
    selection (:class:`archgrad.SelectionResult`), a fit (:class:`archgrad.FitResult`), a study
    (:class:`archgrad.Study`) or a search without gradients.

    Objects that the directory could not name, such as images in memory or a space of your own, must be given again.
    They are compared with those that the run was started with. The number of ``workers`` may differ from before.
    """
    home = as_path("folder", folder)
    kind = read_kind(home)
    images = None if data is None else as_data(data)
    named = {"space": space, "method": method, "data": images, "task": task, "test": test, "workers": workers}
    given = {name: one for name, one in named.items() if one is not None}
    check_given(kind, given)
    how: dict[str, Any] = {"interruptible": interruptible, "callbacks": callbacks}
    if kind == "search":
        return resume_search(home, given, **how)
    if kind == "training":
        return run_training(Training.read(home, given), out=home, resume=True, report=True, **how)
    if kind == "selection":
        return run_selection(SelectionPlan.read(home, given), out=home, resume=True, **how)
    if kind == "fit":
        begun = FitFolder.read(home)
        return run_fit(begun.request(given), begun, **how)
    return resume_study(home) if kind == "study" else resume_blackbox(home)


def check_given(kind: RunKind, given: Mapping[str, Any]) -> None:
    """Reject what this kind of run does not take."""
    for name in given:
        if name not in _TAKES[kind]:
            takes = ", ".join(_TAKES[kind]) or "nothing"
            raise UserError(f"{name} is given, but a {kind} takes {takes} when it is resumed; leave it out.")
