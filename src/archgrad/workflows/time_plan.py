"""How many epochs of a training fit into a time, from a few measured steps."""

from __future__ import annotations

from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Data
from archgrad.loop.estimate import step_seconds
from archgrad.loop.experiment import Experiment

__all__ = ["epoch_seconds", "fitting_epochs"]

_OVERHEAD = 1.1
"""The time of an epoch relative to its steps: held-out images and checkpoints add to it."""
_LONGEST = 20.0
"""Measuring takes a tenth of the time, and at most so many seconds."""
MOST_EPOCHS = 300
"""More epochs than this do not help small networks."""


def epoch_seconds(config: SearchConfig, data: Data, at_most: float = _LONGEST) -> float:
    """Measure a few steps, for about ``at_most`` seconds, and return the time of an epoch."""
    parts = resolve(config)
    return Experiment.of(parts, data).steps * step_seconds(parts, data, at_most) * _OVERHEAD


def fitting_epochs(config: SearchConfig, data: Data, seconds: float) -> int:
    """Return the number of epochs that take about so many seconds; at least 1."""
    found = int(seconds / epoch_seconds(config, data, min(seconds / 10, _LONGEST)))
    return min(max(found, 1), MOST_EPOCHS)
