"""The function that searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from archgrad import callbacks as watching
from archgrad import random_streams
from archgrad.alpha_budget import BudgetChoice
from archgrad.callbacks import Callback
from archgrad.data import ImageData
from archgrad.errors import UserError
from archgrad.loop.folder import RunFolder
from archgrad.loop.global_state import own_modes, seed_globally
from archgrad.loop.interrupts import catch_signals
from archgrad.loop.progressive import in_stages
from archgrad.loop.result import SearchResult
from archgrad.loop.run import Run
from archgrad.loop.setup import Setup
from archgrad.method import Method
from archgrad.reactions import check_reaction, doctors
from archgrad.relaxations import expand_to_cells
from archgrad.spaces import SearchSpace
from archgrad.training import WeightTraining
from archgrad.warn_once import forget_warnings

__all__ = ["search"]


def search(
    space: SearchSpace,
    method: Method,
    data: ImageData,
    *,
    epochs: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    training: WeightTraining | None = None,
    split: tuple[float, float] | str | None = None,
    held_out: float = 0.1,
    device: torch.device | str = "cpu",
    out: Path | str | None = None,
    files: Mapping[str, str] | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    standard_callbacks: bool = True,
    on_collapse: str = "warn",
    alpha_budget: BudgetChoice = "published",
    compile: bool = False,  # noqa: A002 - the word PyTorch uses
) -> SearchResult:
    """Search ``space`` with ``method`` on ``data`` and return the architecture found.

    The weights are trained by ``training`` (by default the space's published settings with what the method changes of
    them; ``epochs`` and ``batch_size`` override it). A bilevel search trains the weights on one part of the data and α
    on the other, as ``split`` says, by default on halves; a single-level one trains both on all of it but the share
    ``held_out``. Every epoch ends with the loss and accuracy on so many images that did not train the weights, as they
    are: those kept out, or in a bilevel search some of the architecture's own; 0 measures and keeps out nothing. The
    supernet is built for the channels and classes of the data. ``out`` is the run directory, with a checkpoint
    after every epoch and with ``files``, texts by name; ``resume`` continues from it, to the same bits as if nothing
    had happened. ``interruptible`` catches SIGINT and SIGTERM while the search runs, and ends it with a checkpoint.
    ``callbacks`` watch the search beside the standard ones, or alone; one of the same kind takes the place of a
    standard one. ``on_collapse`` says what to do when the records show that the search collapses into skip connections
    or ``none``: warn, stop with the last sound architecture, switch to layer alignment from there, or ignore it.
    ``alpha_budget`` says how far α may move: by default as far as in the published search, for which the
    learning rate of α is multiplied by published steps / own steps where there are fewer; "off" keeps the bare rate,
    and a number is a factor for it. ``compile`` runs the supernet through ``torch.compile``. A progressive method
    searches in stages of ``epochs`` epochs each.
    """
    folder = _checked_folder(out, resume, interruptible)
    _check_compile(compile, method)
    prepared = partial(
        Setup.of, data=data, epochs=epochs, seed=seed, batch_size=batch_size, training=training, split=split,
        held_out=held_out, device=device, on_collapse=on_collapse, alpha_budget=alpha_budget,
    )  # fmt: skip
    method.check(space)
    check_reaction(on_collapse, method, space)
    watched = _watching(method, callbacks, standard_callbacks, on_collapse)
    carried_out = partial(_carried_out, interruptible=interruptible, compile_=compile)
    if method.progressive is not None:
        stages = partial(in_stages, space, method, method.progressive, prepared, carried_out)
        return stages(out=folder, files=files, resume=resume, callbacks=watched)
    setup = prepared(space, method)
    return carried_out(setup, RunFolder(folder, setup.description, files) if folder else None, resume, watched)


def _carried_out(
    setup: Setup,
    folder: RunFolder | None,
    resume: bool,
    callbacks: Sequence[Callback],
    interruptible: bool,
    compile_: bool,
) -> SearchResult:
    """Run one search from its beginning, or from where its folder has come to, to its end."""
    forget_warnings()
    with own_modes(setup.device):
        seed_globally(random_streams.seed_of(setup.seed, "global"), setup.device)
        state = setup.initial_state()  # before the folder is opened: it may refuse, and then nothing shall be left
        with folder.opened(resume) if folder else nullcontext() as saved, catch_signals(interruptible) as interrupt:
            if saved is not None:
                state.restore(saved)
            told = (*([folder] if folder else []), *callbacks)
            Run(setup, setup.stepper(state, compile_), told, folder, interrupt, compile_).go(state)
    blocks = setup.blocks
    mixture = expand_to_cells(blocks, setup.method.relaxation.probabilities(blocks, state.alpha))
    return SearchResult(
        state.genotype, tuple(state.history), mixture, state.alpha, state.supernet, state.seconds, setup.method,
        setup.training.epochs, setup.budget_line, state.stopped,
    )  # fmt: skip


def _watching(method: Method, given: Sequence[Callback], with_standard: bool, on_collapse: str) -> tuple[Callback, ...]:
    """Return all callbacks of a search; refuse what is none, and what means nothing for the method."""
    for callback in given:
        if not isinstance(callback, Callback):
            raise UserError(
                f"{callback!r} is no callback; give objects of classes that derive from archgrad.callbacks.Callback."
            )
        callback.check(method.relaxation, method.arch_optimizer, method.discretizer)
    standard = (*watching.standard(), *method.measures) if with_standard else ()
    rule = () if method.stop is None else (method.stop,)
    return watching.joined(standard, given, (*rule, *doctors(on_collapse, method)))


def _checked_folder(out: Path | str | None, resume: bool, interruptible: bool) -> Path | None:
    if resume and out is None:
        raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
    if interruptible and out is None:
        raise UserError("interruptible=True needs out=FOLDER, where the checkpoint of an interrupted search is left.")
    return None if out is None else Path(out)


def _check_compile(compile_: bool, method: Method) -> None:
    if compile_ and method.hypergradient.order > 1:
        raise UserError(
            f"{type(method.hypergradient).__name__} differentiates the supernet twice or changes its ReLUs, which "
            f"torch.compile cannot do; search without compile, or with FirstOrder."
        )
    for regularizer in method.regularizers if compile_ else ():
        if regularizer.differentiates_gradient or regularizer.differentiates_outer_loss:
            raise UserError(
                f"{type(regularizer).__name__} as it is set differentiates the supernet twice, which torch.compile "
                f"cannot do; search without compile, or set difference=interleaved and objective=inner."
            )
    if compile_ and method.relaxation.sparse:
        raise UserError(
            f"{type(method.relaxation).__name__} computes other operations from step to step, so that torch.compile "
            f"would have to compile each time; search without compile, or with a dense relaxation."
        )
