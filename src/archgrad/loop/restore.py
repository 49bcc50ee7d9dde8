"""Restore the state of a run to look at it, without changing the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archgrad.hypergradients import Batches, EvaluationPoint
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.global_state import own_global_state
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState

__all__ = ["evaluate_at_state", "restore_run"]


def restore_run(setup: Setup, folder: Path) -> SearchState:
    """Return the last saved state of a run."""
    saved = Checkpoints(folder).load(setup.identity)
    with own_global_state(setup.device):
        state = setup.initial_state()
    state.restore(saved)
    return state


@contextmanager
def evaluate_at_state(
    setup: Setup, state: SearchState, batch: int, inner_batches: int = 1
) -> Iterator[EvaluationPoint]:
    """Open the evaluation point of a search, with the batches of ``batch`` steps later."""
    batches = setup.step_batches(state.index + batch)
    inner = Batches(map(batches.inner, range(inner_batches)))
    step = setup.stepper(state).in_full_precision().bilevel_step(state)
    with step.at(state.alpha, inner, batches.outer()) as point:
        yield point
