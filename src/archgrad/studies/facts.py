"""The facts of a study that the checklist of good practice asks for."""

from __future__ import annotations

from collections.abc import Sequence

from archgrad.studies.checklist import Fact
from archgrad.studies.fairness import differences
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import StudyPlan
from archgrad.studies.results import ORACLE, BenchmarkResults

__all__ = ["facts_of"]


def facts_of(folder: StudyFolder, plan: StudyPlan, results: Sequence[BenchmarkResults]) -> dict[str, Fact]:
    """Return what the plan and the runs say; what they cannot say is left out."""
    import platform
    from importlib.metadata import version

    from archgrad import __version__

    unlike = [sentence for benchmark in plan.benchmarks for sentence in differences(plan, benchmark)]
    looked_up = all(one.usual_measure.startswith(ORACLE) for one in results)
    runs = [len(seeds) for one in results for seeds in one.runs.values()]
    seconds = sum(run.seconds for one in results for seeds in one.runs.values() for run in seeds.values())
    random = [one.name for one in plan.variants if one.method in ("random-search", "random-nas", "random-cells")]
    not_trained: dict[str, Fact] = dict.fromkeys(("training_code", "training_settings", "training_seeds"))
    return {
        **not_trained,
        "space_code": "archgrad.spaces",
        "search_code": "archgrad.recipes",
        "search_settings": f"{folder.path / 'study.toml'}, and config.toml of every run",
        "search_seeds": tuple(map(str, plan.seeds)),
        "same_space": not any(one.startswith(("space", "width")) for one in unlike),
        "same_data": not any(one.startswith(("images", "image size", "held out", "split")) for one in unlike),
        "same_training": looked_up,
        "same_seeds": len(set(runs)) == 1,
        "same_budget": not any(one.startswith(("epochs", "batch size", "weight steps", "split")) for one in unlike),
        "curves": "metrics.jsonl of every run: `archgrad plot`",
        "random_search": ", ".join(random),
        "runs_per_variant": min(runs),
        "tabular_benchmark": "NAS-Bench table" if looked_up else False,
        "total_time": f"{seconds / 3600:.1f} hours of searches",
        "versions": f"archgrad {__version__}, torch {version('torch')}, Python {platform.python_version()}",
        "hardware": platform.processor() or platform.machine(),
        "test_set_unused": True,
        "failed_runs_named": "failures.json" if any(one.failed for one in results) else None,
    }
