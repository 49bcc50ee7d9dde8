"""What a search tells its listeners: progress displays, logs, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archgrad.loop.state import SearchState
    from archgrad.spaces import SearchSpace

__all__ = [
    "DecisionMade",
    "EpochFinished",
    "Event",
    "Listener",
    "Record",
    "SearchFinished",
    "SearchStarted",
    "StageStarted",
    "StepFinished",
]

Record = dict[str, Any]
"""One line of ``metrics.jsonl``: plain numbers and strings."""


@dataclass(frozen=True)
class StageStarted:
    """Stage ``number`` of a search in ``stages`` is about to begin in this space, or to go on; all others follow it."""

    number: int
    stages: int
    space: SearchSpace


@dataclass(frozen=True)
class SearchStarted:
    """The first step is about to be taken; after a resume, not the first of the search.

    ``budget`` says in one line what the learning rate of α is, and why.
    """

    state: SearchState
    budget: str = ""


@dataclass(frozen=True)
class StepFinished:
    """One architecture step and one weight step are done; losses and accuracies are means over the epoch so far."""

    state: SearchState
    epoch: int
    step: int
    means: dict[str, float]


@dataclass(frozen=True)
class DecisionMade:
    """A derivation that takes its time has made decision ``done`` of ``total``, and ``what`` says which."""

    state: SearchState
    what: str
    done: int
    total: int


@dataclass(frozen=True)
class EpochFinished:
    """An epoch is done and the state stands at the beginning of the next."""

    state: SearchState
    record: Record


@dataclass(frozen=True)
class SearchFinished:
    """The last epoch is done."""

    state: SearchState


Event = StageStarted | SearchStarted | StepFinished | DecisionMade | EpochFinished | SearchFinished
Listener = Callable[[Event], None]
