"""Compare methods: a grid of runs, the engines that compute them, and the tables that they end in.

Importing it stays light: the process that watches over a run on a machine of a cluster needs no PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archgrad.studies.plan import Benchmark, StudyPlan, Variant
    from archgrad.studies.study import Study, compare

__all__ = ["Benchmark", "Study", "StudyPlan", "Variant", "compare"]

_HOMES = {"Benchmark": "plan", "StudyPlan": "plan", "Variant": "plan", "Study": "study", "compare": "study"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'archgrad.studies' has no attribute {name!r}")
    return getattr(importlib.import_module(f"archgrad.studies.{_HOMES[name]}"), name)
