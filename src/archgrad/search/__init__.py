"""The only loop, its state, its events and what it leaves on disk."""

from archgrad.search.checkpoint import Checkpoints
from archgrad.search.events import EpochFinished, Event, Listener, SearchFinished, SearchStarted, StepFinished
from archgrad.search.folder import RunFolder
from archgrad.search.loop import SearchResult, search
from archgrad.search.state import SearchState

__all__ = [
    "Checkpoints",
    "EpochFinished",
    "Event",
    "Listener",
    "RunFolder",
    "SearchFinished",
    "SearchResult",
    "SearchStarted",
    "SearchState",
    "StepFinished",
    "search",
]
