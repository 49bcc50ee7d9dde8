"""What a search does when the doctor says that it collapses."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from archgrad.diagnostics.diagnosis import (
    ALARMING,
    CURES,
    Diagnosis,
    cures_of,
    diagnose,
    first_moved_epoch,
    last_sound_epoch,
)
from archgrad.errors import UserError, check_one_of
from archgrad.loop.state import SearchState
from archgrad.method import Method
from archgrad.regularizers import LayerAlignment
from archgrad.spaces import SKIP, SearchSpace
from archgrad.stopping import REACTIONS

__all__ = ["Doctor", "Memory", "Shelf", "check_reaction", "switched"]

_log = logging.getLogger("archgrad")


def check_reaction(reaction: str, method: Method, space: SearchSpace) -> None:
    """Raise a UserError, before anything is trained, if a search cannot react to a collapse like this."""
    check_one_of("on_collapse", reaction, REACTIONS)
    if reaction in ("stop", "switch") and not method.arch_optimizer.moves:
        raise UserError(
            f"on_collapse is {reaction!r}, but {type(method.arch_optimizer).__name__} never moves the architecture, so "
            f"that it cannot collapse; leave it at 'warn'."
        )
    if reaction in ("stop", "switch") and not space.offers(SKIP, "none"):
        raise UserError(
            f"on_collapse is {reaction!r}, but the space {space.name!r} offers neither skip connections nor `none` to "
            f"collapse into; leave it at 'warn'."
        )
    if reaction == "stop" and method.progressive is not None:
        raise UserError(
            "on_collapse is 'stop', but the stages of a progressive search drop choices by what they end with, and one "
            "that has collapsed would drop the wrong ones; choose 'warn' or 'switch', or leave progressive out."
        )
    if reaction == "stop" and method.discretizer.once:
        raise UserError(
            f"on_collapse is 'stop', which returns the architecture of an earlier epoch, but "
            f"{type(method.discretizer).__name__} derives only one, at the end; choose 'warn' or 'switch', or use "
            f"discretizers.Argmax()."
        )
    if reaction == "switch":
        try:
            switched(method).check(space)
        except UserError as error:
            raise UserError(
                f"on_collapse is 'switch', which adds LayerAlignment to a method, but not to this one: {error} "
                f"Choose on_collapse 'stop' or 'warn' otherwise."
            ) from error


def switched(method: Method) -> Method:
    """Return the method with layer alignment added, which a search switches to.

    >>> from archgrad import recipes
    >>> [type(part).__name__ for part in switched(recipes.darts()).regularizers]
    ['LayerAlignment']
    """
    if any(isinstance(part, LayerAlignment) for part in method.regularizers):
        raise UserError("it has LayerAlignment already.")
    return replace(method, regularizers=(*method.regularizers, LayerAlignment()))


class Shelf(Protocol):
    """Where a state is put aside."""

    def keep(self, state: SearchState) -> None:
        """Put a state aside, in the place of the one before."""

    def kept(self) -> dict[str, Any]:
        """Return what the state that was put aside restores from."""


class Memory:
    """Keeps the last sound state of a search that has no folder."""

    def __init__(self) -> None:
        self._content: dict[str, Any] = {}

    def keep(self, state: SearchState) -> None:
        """Copy what would be a checkpoint."""
        self._content = copy.deepcopy(state.tensors())

    def kept(self) -> dict[str, Any]:
        """Return it; a search goes back only once."""
        return self._content


@dataclass(frozen=True)
class Doctor:
    """Looks at every epoch's record and reacts to a diagnosis of collapse.

    ``ignore`` does nothing. All others write the verdict into the record as ``diagnosis`` and warn when it becomes
    alarming. ``stop`` then ends the search with the architecture of the last epoch that was sound; if none was, with
    that of the first epoch that moved it. ``switch`` goes back to the state after the last epoch that was sound or did
    not move the architecture yet, once, and goes on from there with :func:`switched`: the records of the epochs
    between are dropped, and the first new one says as ``switched_from`` where the search had come to.

    The ``shelf`` is where the state to go back to is put aside, and the ``method`` is what advice is given for. All
    else is a function of the history, so that a search that is killed at any moment and resumed does the same.
    """

    reaction: str = "warn"
    shelf: Shelf = field(default_factory=Memory)
    method: Method | None = None

    def look(self, state: SearchState) -> None:
        """Diagnose a search whose epoch has just been recorded; warn, and stop it if that is wanted."""
        if self.reaction == "ignore":
            return
        record = state.history[-1]
        if state.switched is not None and record["epoch"] == state.switched[1] + 1:
            record["switched_from"] = state.switched[0]
        diagnosis = diagnose(state.history, state.epochs, cures=self._cures(state))
        record["diagnosis"] = diagnosis.verdict
        if not diagnosis.alarming:
            return
        if not any(earlier.get("diagnosis") in ALARMING for earlier in state.history[:-1]):
            _log.warning("%s", _warning(record["epoch"], diagnosis))
        if self.reaction == "stop" and state.stopped is None:
            sound = last_sound_epoch(state.history, state.epochs)
            back = sound or first_moved_epoch(state.history) or 1
            state.stop(back, _reason(record["epoch"], back, diagnosis, bool(sound)))

    def treat(self, state: SearchState) -> bool:
        """Between two epochs, put a sound state aside or go back to the last one; tell whether the method switched."""
        if self.reaction != "switch" or state.switched is not None or state.step or state.stopped is not None:
            return False
        if not first_moved_epoch(state.history) or diagnose(state.history, state.epochs).sound:
            self.shelf.keep(state)
            return False
        if state.history[-1].get("diagnosis") not in ALARMING:
            return False
        came_to, spent = state.epoch, state.seconds
        state.restore(self.shelf.kept())
        state.switched, state.seconds, state.trusted = (came_to, state.epoch), spent, {}
        _log.warning("going back to epoch %d, and on from there with LayerAlignment added to the method.", state.epoch)
        return True

    def _cures(self, state: SearchState) -> tuple[str, ...]:
        """Return what the method that is at work does not have yet."""
        if self.method is None:
            return CURES
        return cures_of(self.method if state.switched is None else switched(self.method))


def _reason(epoch: int, back: int, diagnosis: Diagnosis, sound: bool) -> str:
    said = f"the search was {diagnosis.verdict} after epoch {epoch}"
    if sound:
        return f"{said}; the architecture is that of epoch {back}."
    return f"{said}, and no epoch was sound; the architecture is that of epoch {back}, the first that moved it."


def _warning(epoch: int, diagnosis: Diagnosis) -> str:
    return f"epoch {epoch}: {'; '.join(diagnosis.sentences)}. {diagnosis.advice[:1].upper()}{diagnosis.advice[1:]}."
