"""The only loop, its state and what it leaves on disk."""

from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.entry import Search, resume_search, run_search, search
from archgrad.loop.experiment import Experiment
from archgrad.loop.folder import RunFolder
from archgrad.loop.result import SearchResult
from archgrad.loop.state import SearchState

__all__ = [
    "Checkpoints",
    "Experiment",
    "RunFolder",
    "Search",
    "SearchResult",
    "SearchState",
    "resume_search",
    "run_search",
    "search",
]
