"""The only loop, its state and what it leaves on disk."""

from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.entry import resume, run_search, search
from archgrad.loop.folder import RunFolder
from archgrad.loop.result import SearchResult
from archgrad.loop.state import SearchState

__all__ = ["Checkpoints", "RunFolder", "SearchResult", "SearchState", "resume", "run_search", "search"]
