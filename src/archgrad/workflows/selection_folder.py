"""What a selection leaves on disk beside its trainings: its plan and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.data import Data
from archgrad.distributed.processes import in_first_process, processes
from archgrad.errors import UserError, look_up
from archgrad.parts.fields import Count, check_value
from archgrad.spaces import Genotype
from archgrad.system.files import exists, read_text, write_text
from archgrad.workflows.protocols import PROTOCOLS
from archgrad.workflows.training_folder import PLAN, begin, read_plan
from archgrad.workflows.training_plan import TrainingPlan

if TYPE_CHECKING:
    from archgrad.workflows.select import SelectionPlan

__all__ = ["CANDIDATES", "SELECTION", "begin_selection", "read_selection_plan", "write_selection"]

CANDIDATES, SELECTION = "candidates.json", "selection.json"
_MOST = 1 << 24


@in_first_process
def begin_selection(folder: Path, plan: SelectionPlan, training: TrainingPlan, data: Data, resume: bool) -> None:
    """Write the plan; reject a folder that holds anything else, and other candidates on resume."""
    if not (resume and exists(folder / PLAN)):
        begin(folder, training, data)
    if exists(folder / CANDIDATES):
        begun = _read_candidates(folder)
        if any(begun[name] != getattr(plan, name) for name in ("genotypes", "seeds", "protocol")):
            raise UserError(
                f"{folder} was begun with other candidates or seeds, or by another protocol; give those, or another "
                f"folder."
            )
        return
    content = {
        "protocol": plan.protocol, "searches": plan.searches, "genotypes": [str(one) for one in plan.genotypes],
        "seeds": plan.seeds, "search_seconds": dict(plan.search_seconds),
    }  # fmt: skip
    write_text(folder / CANDIDATES, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_selection_plan(folder: Path, objects: Mapping[str, Any], test: Any = None) -> SelectionPlan:
    """Read the plan of a begun selection."""
    from archgrad.workflows.select import SelectionPlan

    return SelectionPlan(read_plan(folder, objects, test), **_read_candidates(folder))


def _read_candidates(folder: Path) -> dict[str, Any]:
    """Return the fields of the plan of a selection beside its training."""
    try:
        content = json.loads(read_text(folder / CANDIDATES, "list of candidates", _MOST))
        genotypes, seeds = tuple(map(Genotype.parse, content["genotypes"])), content["seeds"]
        seconds = {str(run): float(one) for run, one in content["search_seconds"].items()}
        protocol, searches = content["protocol"], content["searches"]
        look_up("protocol", protocol, PROTOCOLS)
        check_value("seeds", seeds, Count)
        check_value("searches", searches, Count | None)
        if not genotypes:
            raise UserError("there are no genotypes")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{folder / CANDIDATES} is no list of candidates; start a new selection.") from error
    return {
        "genotypes": genotypes, "seeds": seeds, "search_seconds": seconds, "protocol": protocol, "searches": searches,
    }  # fmt: skip


def write_selection(folder: Path, content: Mapping[str, Any]) -> None:
    """Write ``selection.json``."""
    if processes().rank == 0:
        write_text(folder / SELECTION, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
