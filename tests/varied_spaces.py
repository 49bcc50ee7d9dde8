"""The spaces whose networks are built in different ways, for tests that try every space."""

from __future__ import annotations

from dataclasses import replace

from archgrad.spaces import SPACES, SearchSpace

__all__ = ["VARIED_SPACES", "small_space"]

VARIED_SPACES = [name for name in SPACES if not name.startswith("darts-") or name == "darts-wide-all-skip"]
"""Of the nine DARTS spaces of a benchmark suite, one; ``test_bench_suite.py`` has the others."""


def small_space(name: str, **sizes: int) -> SearchSpace:
    """Return a space with 4 channels and the fewest cells that all kinds of cells need."""
    space = SPACES.create(name)
    depth = {space.depth_knob: 3 if space.depth_knob == "cells" else 1}
    return replace(space, **{"channels": 4, **depth, **sizes})
