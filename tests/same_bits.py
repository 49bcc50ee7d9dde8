"""Searches compared to the bit, and searches that die at a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from listening import Event, StepFinished, listening

from archgrad.callbacks import Callback
from archgrad.loop import SearchResult

__all__ = ["assert_same", "dying_at", "same_bits", "timeless"]


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

    def die(event: Event) -> None:
        if isinstance(event, StepFinished):
            late = (event.epoch, event.step) == (1, 1) if index is None else event.state.index == index
            if late:
                raise KeyboardInterrupt

    return listening(die)
