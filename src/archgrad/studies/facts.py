"""The facts of a study that the checklist of good practice asks for."""

from __future__ import annotations

from collections.abc import Sequence

from archgrad.studies.checklist import Fact
from archgrad.studies.fairness import NO_EPOCHS, differences
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import StudyPlan
from archgrad.studies.results import ORACLE, BenchmarkResults

__all__ = ["facts_of"]

_RANDOM = ("random-search", "random-nas", "random-cells")
_DATA = ("images", "image size", "held out", "split")
_BUDGET = ("epochs", "batch size", "weight steps", "split")
"""How sentences begin that tell of other data, or of another budget."""


def facts_of(folder: StudyFolder, plan: StudyPlan, results: Sequence[BenchmarkResults]) -> dict[str, Fact]:
    """Return what the plan and the runs say; what they cannot say is left out."""
    import platform
    from importlib.metadata import version

    from archgrad import __version__

    unlike = [sentence for benchmark in plan.benchmarks for sentence in differences(plan, benchmark)]
    looked_up = all(one.usual_measure.startswith(ORACLE) for one in results)
    runs = [len(seeds) for one in results for seeds in one.runs.values()]
    seconds = sum(run.seconds for one in results for seeds in one.runs.values() for run in seeds.values())
    budgets = {one.partition(NO_EPOCHS)[2] for one in unlike if NO_EPOCHS in one}
    alike = len({one.is_blackbox for one in plan.variants}) == 1
    finished = {name for one in results for name, seeds in one.runs.items() if seeds}
    random = [one.name for one in plan.variants if one.method in _RANDOM and one.name in finished]
    not_trained: dict[str, Fact] = dict.fromkeys(("training_code", "training_settings", "training_seeds"))
    return {
        **not_trained,
        "space_code": "archgrad.spaces",
        "search_code": "archgrad.recipes",
        "search_settings": f"{folder.path / 'study.toml'}, and config.toml of every run",
        "search_seeds": tuple(map(str, plan.seeds)),
        "same_space": not any(one.startswith(("space", "width")) for one in unlike),
        "same_data_and_split": alike and not any(one.startswith(_DATA) for one in unlike),
        "same_training": looked_up,
        "same_seeds": len(set(runs)) == 1,
        "same_budget": alike and len(budgets) < 2 and not any(one.startswith(_BUDGET) for one in unlike),
        "curves": "metrics.jsonl of every run: `archgrad plot`",
        "random_search": ", ".join(random),
        "runs_per_variant": min(runs),
        "tabular_benchmark": "NAS-Bench table" if looked_up else False,
        "total_time": f"{seconds / 60:,.2f} minutes of searches",
        "versions": f"archgrad {__version__}, torch {version('torch')}, Python {platform.python_version()}",
        "hardware": platform.processor() or platform.machine(),
        "test_set_unused": True,
        "failed_runs_named": "failures.json" if any(one.failed for one in results) else None,
    }
