"""The only loop, its state and what it leaves on disk.

``prepare`` makes an ``experiment`` of a configuration, with ``sizes`` for a time limit. ``entry`` runs it, in one or
more ``stages``, each by the loop in ``run``: ``steps`` move ``state`` by the gradients of ``losses``, and ``measuring``
measures it. ``folder`` writes the run directory and ``checkpoint`` what a search resumes from; ``result`` is the end.
"""

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
