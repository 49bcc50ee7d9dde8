"""The spaces whose networks are built in different ways, for tests that try every space."""

from __future__ import annotations

from archgrad.spaces import SPACES

__all__ = ["VARIED_SPACES"]

VARIED_SPACES = [name for name in SPACES if not name.startswith("darts-") or name == "darts-wide-all-skip"]
"""Of the nine DARTS spaces of a benchmark suite, one; ``test_bench_suite.py`` has the others."""
