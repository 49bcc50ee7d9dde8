"""Searches compared to the bit, and searches that die or are stopped at a step."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import StepFinished, on

from archgrad.callbacks import Callback
from archgrad.loop import SearchResult

__all__ = ["assert_same", "dying_at", "killed_and_resumed", "same_bits", "stopping_at", "timeless"]


def timeless(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the records without the time that they took."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


def same_bits(one: SearchResult, other: SearchResult) -> bool:
    """Tell whether genotype, α and weights are the same."""
    first, second = ({**found.alpha, **found.supernet.state_dict()} for found in (one, other))
    return (
        one.genotype == other.genotype
        and first.keys() == second.keys()
        and all(torch.equal(value, second[name]) for name, value in first.items())
    )


def assert_same(one: SearchResult, other: SearchResult) -> None:
    """Compare everything but the time that was needed; records as texts, because NaN is not equal to itself."""
    assert same_bits(one, other)
    assert one.stopped == other.stopped
    assert str(timeless(one.history)) == str(timeless(other.history))


def dying_at(index: int | None = None) -> list[Callback]:
    """Return what ends a search after so many steps, as a kill would; by default after one of the second epoch."""

    def die(event: StepFinished) -> None:
        if (event.epoch, event.step) == (1, 1) if index is None else event.state.index == index:
            raise KeyboardInterrupt

    return on(StepFinished, die)


def stopping_at(index: int) -> list[Callback]:
    """Return what stops a search after so many steps, as Ctrl-C would."""
    return on(StepFinished, lambda event: event.state.index != index or os.kill(os.getpid(), signal.SIGINT))


def killed_and_resumed(
    search: Callable[..., SearchResult], folder: Path, at: int | None = None
) -> tuple[SearchResult, SearchResult]:
    """Search at once, and with a kill after so many steps; return both results, which are the same."""
    whole = search()
    with pytest.raises(KeyboardInterrupt):
        search(out=folder, callbacks=dying_at(at))
    resumed = search(out=folder, resume=True)
    assert_same(whole, resumed)
    return whole, resumed
