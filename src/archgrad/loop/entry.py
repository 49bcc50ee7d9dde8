"""The functions that start and resume a search."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from archgrad.callbacks import Callback, join_callbacks, standard
from archgrad.config import (
    SearchConfig,
    config_to_toml,
    config_with,
    named_config,
    published_lines,
    read_run_config,
    validate,
)
from archgrad.data import Data, as_data
from archgrad.distributed.processes import check_same, joined, processes
from archgrad.errors import ProcessLostError, UserError, shortened, unknown
from archgrad.loop.folder import OWN_FILES, RunFolder
from archgrad.loop.global_state import own_global_state, seed_globally, take_turns
from archgrad.loop.interrupts import catch_signals, lost
from archgrad.loop.progressive import Stages
from archgrad.loop.result import SearchResult, result_of
from archgrad.loop.run import Run
from archgrad.loop.setup import Setup
from archgrad.method.bundle import Method
from archgrad.method.reactions import doctors
from archgrad.parts.fields import check_value
from archgrad.spaces import SearchSpace
from archgrad.system import random_streams
from archgrad.system.devices import AUTO, usable_device
from archgrad.system.files import as_path
from archgrad.system.run_kind import RunKind
from archgrad.system.warn_once import forget_warnings
from archgrad.tasks import BaseTask

__all__ = ["resume", "run_search", "search"]


_log = logging.getLogger("archgrad")

_POSITIONAL = ("space", "method", "data")
_OF_THE_COMMAND = ("time_limit", "threads", "oracle", "needs")
"""Fields of a configuration that only the command or a run directory uses."""


def search(
    space: SearchSpace | str = "nasbench201",
    method: Method | str = "gaea-simultaneous",
    data: Any = "digits",
    *,
    out: Path | str | None = None,
    resume: bool = False,
    files: Mapping[str, str] | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    standard_callbacks: bool = True,
    **options: Any,
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    Each of the three is an object or a name: ``search("nasbench201", "gaea", "digits", epochs=3)``. A name brings its
    published settings. ``data`` may also be a dataset of PyTorch or Hugging Face, or a pair (inputs, targets) of
    tensors or arrays (:func:`archgrad.data.from_dataset`). All ``options`` are fields of
    :class:`archgrad.SearchConfig`:

    - ``published``: everything to the letter of the recipe's paper: sizes, epochs, batches, all images (none held out),
      the bare rate of α. Options that would change it are refused;
    - ``epochs``, ``batch_size``, ``weights``: how the weights are trained, by default as published;
    - ``seed``, ``device``, ``precision``, ``deterministic``, ``compile``;
    - ``workers``: the processes that read data that is not in memory;
    - ``checkpoint_cells``: less memory and more time, by computing activations again in the backward pass;
    - ``split``: the parts of the data for weights and architecture in a bilevel search, by default halves;
    - ``held_out``: the share of the images that measures each epoch and trains no weights;
    - ``alpha_budget``: how far α may move, by default as far as in the published search. A shorter search multiplies
      the recipe's learning rate of α by published steps / own steps, and takes a rate that you set literally. "always"
      multiplies that too, "off" keeps any rate, and a number is a factor for it;
    - ``on_collapse``: warn, stop with the last usable architecture, switch to layer alignment from there, or ignore;
    - ``settings``: any other knob, such as ``{"arch_optimizer.lr": 0.01}``.

    ``out`` is the run directory. The search writes its description, a checkpoint after every epoch, and ``files``,
    texts by name. ``resume`` continues from there to the same bits, as :func:`archgrad.resume` does.
    ``interruptible`` catches SIGINT and SIGTERM and ends the search with a checkpoint. ``callbacks`` watch the search
    beside the standard ones; without ``standard_callbacks`` they do so alone. A callback replaces a standard one of its
    kind. A progressive method searches in stages of ``epochs`` epochs each. Searches in several threads of a process
    take turns, so that each finds the same bits as alone.
    """
    known = [one.name for one in fields(SearchConfig) if one.name not in (*_POSITIONAL, *_OF_THE_COMMAND)]
    for name in options:
        if name not in known:
            raise unknown("option of search:", name, known)
    with take_turns():  # also while data is scanned, which seeds the global generators
        config = SearchConfig(space=space, method=method, data=as_data(data), **options)
        return run_search(
            config, out=out, resume=resume, files=files, interruptible=interruptible, callbacks=callbacks,
            standard_callbacks=standard_callbacks,
        )  # fmt: skip


def resume(
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
    images = None if data is None else as_data(data)
    given = {"space": space, "method": method, "data": images, "task": task, "workers": workers}
    home = as_path("folder", folder)
    config = config_with(read_run_config(home), {name: one for name, one in given.items() if one is not None})
    return run_search(config, out=home, resume=True, interruptible=interruptible, callbacks=callbacks)


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
    """Run the search that a configuration describes; ``images`` are its data if already loaded.

    ``kind`` is what its run directory says that it is.
    """
    with take_turns(), joined(config.device):
        return _run_joined(config, images, out, resume, files, interruptible, callbacks, standard_callbacks, kind)


def _run_joined(
    config: SearchConfig,
    images: Data | None,
    out: Path | str | None,
    resume: bool,
    files: Mapping[str, str] | None,
    interruptible: bool,
    callbacks: Sequence[Callback],
    standard_callbacks: bool,
    kind: RunKind,
) -> SearchResult:
    folder = _checked_folder(out, resume, interruptible)
    check_value("standard_callbacks", standard_callbacks, bool)
    if not isinstance(callbacks, Sequence):
        raise UserError(f"callbacks is {shortened(callbacks)}; it must be a list of callbacks.")
    validate(config)
    space, method = config.build_space(), config.build_method()
    _check_compile(config, method)
    if config.device == AUTO:
        _log.info("this search runs on %s.", usable_device(AUTO))
    watched = _all_callbacks(method, (*config.build_callbacks(), *callbacks), standard_callbacks, config.on_collapse)
    images = config.load_data() if images is None else images
    for line in published_lines(config, images) if config.published else ():
        _log.info("%s", line)
    describe = partial(_described, config, space, method, images)
    run_one = partial(_run_one, interruptible=interruptible, compile_=config.compile, describe=describe)
    texts = {} if folder is None or resume else {"config.toml": describe()}
    texts |= _checked_files(files or {})
    if method.progressive is not None:
        stages = Stages(config, space, method, method.progressive, images)
        return stages.search(run_one, out=folder, files=texts, resume=resume, callbacks=watched)
    setup = Setup.of(space, method, images, config, folder if resume else None)
    return run_one(setup, RunFolder(folder, setup.identity, texts, run_kind=kind) if folder else None, resume, watched)


def _described(config: SearchConfig, space: SearchSpace, method: Method, images: Data) -> str:
    return config_to_toml(named_config(config, space, method, config.build_training(space, method), images))


def _run_one(
    setup: Setup,
    folder: RunFolder | None,
    resume: bool,
    callbacks: Sequence[Callback],
    interruptible: bool,
    compile_: bool,
    describe: Callable[[], str],
) -> SearchResult:
    """Run one search to its end, from its beginning or from the checkpoint in its folder."""
    forget_warnings()
    with own_global_state(setup.device, setup.config.deterministic), setup.reading():
        seed_globally(random_streams.seed_of(setup.seed, "global"), setup.device)
        state = setup.initial_state()  # before the folder is opened: if this raises, no folder is left behind
        state.folder = folder.path if folder else None
        with folder.opened(resume) if folder else nullcontext() as saved, catch_signals(interruptible) as interrupt:
            if saved is not None:
                state.restore(saved)
                _compare_threads(saved["threads"])
                _compare_processes(saved["processes"])
            writes = processes().rank == 0
            watching = (*([folder] if folder else []), *(one for one in callbacks if writes or not one.only_writes))
            check_same("other settings or data", lambda: setup.identity.digest)
            try:
                Run(setup, setup.stepper(state, compile_), watching, folder, interrupt, compile_).go(state)
            except ProcessLostError as error:
                raise lost(error, folder) from error
    return result_of(setup, state, describe)


def _compare_threads(before: object) -> None:
    """Say that the last bits may differ if the saved part of a search was computed with other threads."""
    now = torch.get_num_threads()
    if isinstance(before, int) and before != now:
        _log.warning(
            "the search began with %d threads and continues with %d, so the last bits of its numbers may differ; "
            "torch.set_num_threads(%d) or --threads %d repeats them.",
            before, now, before, before,
        )  # fmt: skip


def _compare_processes(before: object) -> None:
    """Say that the last bits may differ if the saved part of a search was computed by other processes."""
    now = processes().size
    if isinstance(before, int) and before != now:
        _log.warning(
            "the search began with %d process%s and continues with %d, so the last bits of its numbers differ.",
            before, "" if before == 1 else "es", now,
        )  # fmt: skip


def _all_callbacks(
    method: Method, given: Sequence[Callback], with_standard: bool, on_collapse: str
) -> tuple[Callback, ...]:
    """Return all callbacks of a search; reject other objects, and callbacks that do not fit the method."""
    for callback in given:
        if not isinstance(callback, Callback):
            raise UserError(
                f"{shortened(callback)} is not a callback; give objects of classes that derive from "
                f"archgrad.callbacks.Callback."
            )
        callback.check(method.relaxation, method.arch_optimizer, method.discretizer)
    measuring = (*standard(), *method.measures) if with_standard else ()
    rule = () if method.stop is None else (method.stop,)
    return join_callbacks(measuring, given, (*rule, *doctors(on_collapse, method)))


def _checked_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the texts to write; reject names that leave the run folder or belong to the search."""
    if not isinstance(files, Mapping):
        raise UserError(f"files is {shortened(files)}; it must be a dictionary of texts by file name.")
    for name, text in files.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise UserError(f"files has {shortened(name)}: {shortened(text)}; give texts by file name.")
        if name in ("", ".", "..") or {"/", "\\", "\0", ":"} & set(name) or len(name.encode()) > 200:
            raise UserError(f"files names {shortened(name)}; give a plain file name, which stays in the run folder.")
        if name.startswith(("checkpoint", "healthy", "stage-", ".")) or name in OWN_FILES:
            raise UserError(f"files names {name!r}, which the search itself writes; choose another name.")
    return dict(files)


def _checked_folder(out: Path | str | None, resume: bool, interruptible: bool) -> Path | None:
    check_value("resume", resume, bool)
    check_value("interruptible", interruptible, bool)
    if resume and out is None:
        raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
    if interruptible and out is None:
        raise UserError("interruptible=True needs out=FOLDER, where the checkpoint of an interrupted search is left.")
    return None if out is None else as_path("out", out)


def _check_compile(config: SearchConfig, method: Method) -> None:
    compile_ = config.compile
    check_value("compile", compile_, bool)
    check_value("checkpoint_cells", config.checkpoint_cells, bool)
    if compile_ and config.checkpoint_cells:
        raise UserError(
            "compile and checkpoint_cells are both on, but torch.compile decides itself which activations it keeps; "
            "switch one of them off."
        )
    if compile_ and processes().size > 1:
        raise UserError("torch.compile works in one process only; search without compile, or without torchrun.")
    if compile_ and method.hypergradient.order > 1:
        raise UserError(
            f"{type(method.hypergradient).__name__} differentiates the supernet twice or changes its ReLUs, which "
            f"torch.compile does not support; search without compile, or with FirstOrder."
        )
    for regularizer in method.regularizers if compile_ else ():
        if regularizer.differentiates_gradient or regularizer.differentiates_outer_loss:
            raise UserError(
                f"{type(regularizer).__name__} as it is set differentiates the supernet twice, which torch.compile "
                f"cannot do; search without compile, or set difference=interleaved and objective=inner."
            )
    if compile_ and method.relaxation.sparse:
        raise UserError(
            f"{type(method.relaxation).__name__} computes different operations in each step, so torch.compile would "
            f"compile again every time; search without compile, or with a dense relaxation."
        )
