"""The only loop, its state, its events and what it leaves on disk."""

from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.events import (
    DecisionMade,
    EpochFinished,
    Event,
    Listener,
    SearchFinished,
    SearchStarted,
    StageStarted,
    StepFinished,
)
from archgrad.loop.folder import RunFolder
from archgrad.loop.run import SearchResult, search
from archgrad.loop.state import SearchState

__all__ = [
    "Checkpoints",
    "DecisionMade",
    "EpochFinished",
    "Event",
    "Listener",
    "RunFolder",
    "SearchFinished",
    "SearchResult",
    "SearchStarted",
    "SearchState",
    "StageStarted",
    "StepFinished",
    "search",
]
