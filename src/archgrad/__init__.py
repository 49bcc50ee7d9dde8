"""archgrad: stable differentiable neural architecture search.

A method is relaxation × hypergradient × architecture optimizer × regularizers × discretizer; every published system is
a recipe of a few lines, and new combinations work by construction.

Everything is imported on first use, so that ``import archgrad`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archgrad import (
        arch_optimizers,
        blackbox,
        callbacks,
        data,
        diagnostics,
        discretizers,
        hypergradients,
        loop,
        models,
        operations,
        recipes,
        regularizers,
        relaxations,
        report,
        spaces,
        supernet,
        tables,
        tasks,
        workflows,
    )
    from archgrad.bilevel.adam_descent import AdamDescent
    from archgrad.bilevel.descent import Descent
    from archgrad.bilevel.problem import BilevelProblem
    from archgrad.config import SearchConfig
    from archgrad.errors import ArchgradError, DiskError, DivergedError, SearchInterrupted, UserError
    from archgrad.loop import Search, SearchResult, search
    from archgrad.method.bundle import Method
    from archgrad.method.progressive import Progressive
    from archgrad.models import Model
    from archgrad.resuming import resume
    from archgrad.spaces import Genotype
    from archgrad.studies.vote import Vote, vote
    from archgrad.supernet import SupernetOptions
    from archgrad.tasks import Task
    from archgrad.training.schedule import Schedule
    from archgrad.training.weight_training import WeightTraining
    from archgrad.workflows import TrainResult
    from archgrad.workflows.create_model import create_model, list_models
    from archgrad.workflows.fit import fit
    from archgrad.workflows.fit_plan import FitPlan
    from archgrad.workflows.fit_report import FitResult
    from archgrad.workflows.select import SelectionResult, select
    from archgrad.workflows.train import train

__version__ = "0.1.0"

__all__ = [
    "AdamDescent",
    "ArchgradError",
    "BilevelProblem",
    "Descent",
    "DiskError",
    "DivergedError",
    "FitPlan",
    "FitResult",
    "Genotype",
    "Method",
    "Model",
    "Progressive",
    "Schedule",
    "Search",
    "SearchConfig",
    "SearchInterrupted",
    "SearchResult",
    "SelectionResult",
    "Study",
    "SupernetOptions",
    "Task",
    "TrainResult",
    "UserError",
    "Vote",
    "WeightTraining",
    "arch_optimizers",
    "blackbox",
    "callbacks",
    "compare",
    "create_model",
    "data",
    "diagnostics",
    "discretizers",
    "fit",
    "hypergradients",
    "list_models",
    "loop",
    "models",
    "operations",
    "recipes",
    "regularizers",
    "relaxations",
    "report",
    "resume",
    "search",
    "select",
    "spaces",
    "studies",
    "supernet",
    "tables",
    "tasks",
    "train",
    "vote",
    "workflows",
]

_HOMES = {
    "AdamDescent": "bilevel.adam_descent",
    "ArchgradError": "errors",
    "BilevelProblem": "bilevel.problem",
    "Descent": "bilevel.descent",
    "DiskError": "errors",
    "DivergedError": "errors",
    "FitPlan": "workflows.fit_plan",
    "FitResult": "workflows.fit_report",
    "Genotype": "spaces",
    "Method": "method.bundle",
    "Model": "models",
    "Progressive": "method.progressive",
    "Schedule": "training.schedule",
    "Search": "loop",
    "SearchConfig": "config",
    "SearchInterrupted": "errors",
    "SearchResult": "loop",
    "SelectionResult": "workflows.select",
    "Study": "studies",
    "SupernetOptions": "supernet",
    "Task": "tasks",
    "TrainResult": "workflows",
    "UserError": "errors",
    "Vote": "studies.vote",
    "WeightTraining": "training.weight_training",
    "compare": "studies",
    "create_model": "workflows.create_model",
    "fit": "workflows.fit",
    "list_models": "workflows.create_model",
    "resume": "resuming",
    "search": "loop",
    "select": "workflows.select",
    "train": "workflows",
    "vote": "studies.vote",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'archgrad' has no attribute {name!r}")
    if name not in _HOMES:
        return importlib.import_module(f"archgrad.{name}")
    value = getattr(importlib.import_module(f"archgrad.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
