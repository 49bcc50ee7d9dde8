"""Looking into a run without touching it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from archgrad.hypergradients import Batches, EvaluationPoint
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState

__all__ = ["evaluate_at_state", "reopened"]


def reopened(setup: Setup, folder: Path) -> SearchState:
    """Return the state that a run was last saved in."""
    saved = Checkpoints(folder).load(setup.identity)
    with torch.random.fork_rng([]):
        state = setup.initial_state()
    state.restore(saved)
    return state


@contextmanager
def evaluate_at_state(
    setup: Setup, state: SearchState, batch: int, inner_batches: int = 1
) -> Iterator[EvaluationPoint]:
    """Open the evaluation point of a search, with the batches it would draw ``batch`` steps later."""
    batches = setup.step_batches(state.index + batch)
    inner = Batches(map(batches.inner, range(inner_batches)))
    with setup.stepper(state).bilevel_step(state).at(state.alpha, inner, batches.outer()) as point:
        yield point
