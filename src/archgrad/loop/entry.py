"""The functions that run a search to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Data
from archgrad.distributed.processes import joined
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import take_turns
from archgrad.loop.prepare import checked_folder, prepare
from archgrad.loop.result import SearchResult
from archgrad.loop.saved_run import config_of_run
from archgrad.loop.stepwise import Search
from archgrad.method.bundle import Method
from archgrad.spaces import SearchSpace
from archgrad.system.files import as_path
from archgrad.system.run_kind import RunKind
from archgrad.tasks import BaseTask

__all__ = ["resume_search", "run_search", "search"]


def search(
    space: SearchSpace | str = "nasbench201",
    method: Method | str = "gaea-simultaneous",
    data: Any = "digits",
    **options: Any,
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    Each of the three is an object or a name: ``search("nasbench201", "gaea", "digits", epochs=3)``. A name brings its
    published settings. ``data`` may also be a dataset of PyTorch or Hugging Face, or a pair (inputs, targets) of
    tensors or arrays (:func:`archgrad.data.from_dataset`). All ``options`` are fields of
    :class:`archgrad.SearchConfig`, whose help lists them:

    - the size of the search is ``epochs``, ``channels``, ``cells``, ``batch_size`` and ``weights``. If you give one of
      them, the others are as published; if you give none, all are chosen for ``time_limit`` minutes, by default 5;
    - ``threads`` is by default the fastest number, or OMP_NUM_THREADS of the environment. The last bits depend on it;
    - ``published`` refuses options that would change the search of the paper;
    - ``settings`` are all other knobs, such as ``{"arch_optimizer.lr": 0.01}``.

    ``out`` is the run directory. The search writes its description, a checkpoint after every epoch, and ``files``,
    texts by name. ``resume`` continues from there to the same bits, as :func:`archgrad.resume` does.
    ``interruptible`` catches SIGINT and SIGTERM and ends the search with a checkpoint. ``callbacks`` watch the search
    beside the standard ones; without ``standard_callbacks`` they do so alone. A callback replaces a standard one of its
    kind. In a terminal or a notebook the search shows its progress; ``progress`` switches that on or off. To step
    through a search, see :class:`archgrad.Search`. A progressive method searches in stages of ``epochs`` epochs each.
    Searches in several threads of a process take turns, so that each finds the same bits as alone.
    """
    return Search(space, method, data, **options).result()


def resume_search(
    folder: Path | str,
    *,
    space: SearchSpace | None = None,
    method: Method | None = None,
    data: Any = None,
    task: BaseTask | None = None,
    workers: int | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
) -> SearchResult:
    """Continue the search in a run directory, to the same bits as if it had never stopped.

    Objects that the directory could not name, such as images in memory, must be given again. They are compared with
    those that the search was started with. The number of ``workers`` may differ from before.
    """
    home = as_path("folder", folder)
    config = config_of_run(home, {"space": space, "method": method, "data": data, "task": task, "workers": workers})
    with joined(config.device):
        experiment = prepare(config, callbacks, begun=home)
        return Search.of(experiment, out=home, resume=True, interruptible=interruptible).result()


def run_search(
    config: SearchConfig,
    *,
    images: Data | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    files: Mapping[str, str] | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    standard_callbacks: bool = True,
    kind: RunKind = "search",
) -> SearchResult:
    """Run what a configuration describes, as it is: no size is chosen; ``images`` are its data if already loaded."""
    folder = checked_folder(out, resume, interruptible)
    with take_turns(), joined(config.device):
        parts = resolve(config, callbacks, standard_callbacks=standard_callbacks)
        images = config.load_data() if images is None else images
        experiment = Experiment.of(parts, images, folder if resume else None)
        run = Search.of(
            experiment, out=folder, resume=resume, files=files, interruptible=interruptible, kind=kind
        )  # fmt: skip
        return run.result()
