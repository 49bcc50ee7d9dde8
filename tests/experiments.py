"""An experiment of objects, for tests that look inside a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Data
from archgrad.loop import Experiment
from archgrad.method.bundle import Method
from archgrad.spaces import SearchSpace


def experiment_of(
    space: SearchSpace, method: Method, data: Data, config: SearchConfig, begun: Path | None = None
) -> Experiment:
    """Return the experiment of a space, a method and data, with the other settings of a configuration."""
    return Experiment.of(resolve(replace(config, space=space, method=method)), data, begun)
