"""The doctor: diagnoses every epoch, and reacts when the search collapses."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from archgrad.callbacks.base import Callback, Measures, Stop
from archgrad.callbacks.search import SearchView
from archgrad.diagnostics import Diagnosis, Snapshot
from archgrad.diagnostics.diagnosis import ALARMING, CURES, diagnose, first_moved_epoch, last_usable_epoch

__all__ = ["Doctor"]

_log = logging.getLogger("archgrad")


@dataclass(frozen=True)
class Doctor(Callback):
    """Diagnose every epoch and warn when the search collapses; stop it or go back if ``reaction`` says so.

    The record has the verdict as ``diagnosis``. The reaction ``stop`` ends the search with the architecture of the last
    usable epoch. If there is none, it takes that of the first epoch that moved the architecture. The reaction
    ``switch`` goes back, once, to the state after the last epoch that was usable or had not moved the architecture
    yet. From there the search continues with layer alignment. The records in between are dropped. The first new record
    says as ``switched_from`` from which epoch the search went back.

    The advice names one of the ``cures``, or after a switch one of those in ``after``. Everything is computed from the
    history, so a search that is killed and resumed at any moment does the same.
    """

    kind: ClassVar[str] = "doctor"
    requires: ClassVar[tuple[str, ...]] = ("architecture",)

    reaction: Literal["warn", "stop", "switch"] = "warn"
    cures: tuple[str, ...] = field(default=CURES, metadata={"knob": False})
    after: tuple[str, ...] = field(default=(), metadata={"knob": False})

    def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> Measures:
        """Return ``diagnosis``; warn when it is alarming for the first time."""
        epoch, diagnosis = search.history[-1]["epoch"], self._diagnosis(search)
        warned = any(earlier.get("diagnosis") in ALARMING for earlier in search.history[:-1])
        if diagnosis.alarming and not warned:
            _log.warning("%s", _warning(epoch, diagnosis))
        first_after_switch = search.switched is not None and epoch == search.switched[1] + 1
        switched = {"switched_from": search.switched[0]} if search.switched and first_after_switch else {}
        return {**switched, "diagnosis": diagnosis.verdict}

    def stop(self, search: SearchView) -> Stop | None:
        """Stop a search that collapses, if that is the reaction."""
        if self.reaction != "stop" or not (diagnosis := self._diagnosis(search)).alarming:
            return None
        usable = last_usable_epoch(search.history, search.epochs)
        back = usable or first_moved_epoch(search.history) or 1
        return Stop(back, _reason(search.history[-1]["epoch"], back, diagnosis, bool(usable)))

    def keep_state(self, search: SearchView) -> bool:
        """Keep a state that is usable or has not moved the architecture yet, if the search may go back."""
        if self.reaction != "switch":
            return False
        return not first_moved_epoch(search.history) or diagnose(search.history, search.epochs).usable

    def go_back(self, search: SearchView) -> str | None:
        """Go back from an epoch that collapses, if that is the reaction."""
        if self.reaction != "switch" or search.history[-1].get("diagnosis") not in ALARMING:
            return None
        return "LayerAlignment added to the method"

    def _diagnosis(self, search: SearchView) -> Diagnosis:
        cures = self.cures if search.switched is None else self.after
        return diagnose(search.history, search.epochs, cures=cures)


def _reason(epoch: int, back: int, diagnosis: Diagnosis, usable: bool) -> str:
    said = f"the search was {diagnosis.verdict} after epoch {epoch}"
    if usable:
        return f"{said}; the architecture is that of epoch {back}."
    return f"{said}, and no epoch was usable; the architecture is that of epoch {back}, the first that moved it."


def _warning(epoch: int, diagnosis: Diagnosis) -> str:
    return f"epoch {epoch}: {'; '.join(diagnosis.sentences)}. {diagnosis.advice[:1].upper()}{diagnosis.advice[1:]}."
