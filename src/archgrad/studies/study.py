"""Start, continue and read a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archgrad.config.toml import options_table
from archgrad.errors import UserError
from archgrad.parts.fields import Count, check_value
from archgrad.studies.coordinator import Watch, run_missing
from archgrad.studies.curves import MeanPoint, study_curves
from archgrad.studies.engines import ENGINES, Engine, make_engine
from archgrad.studies.fairness import check_plan, fill_in_sizes
from archgrad.studies.folder import RunStatus, StudyFolder
from archgrad.studies.plan import StudyPlan, plan_of, split_names
from archgrad.studies.results import BenchmarkResults, TopArchitecture, read_results, top_of_benchmark
from archgrad.studies.summary import BenchmarkSummary, number_table, summarize_benchmark
from archgrad.studies.tables import ResultTable
from archgrad.system.files import as_path

__all__ = ["Study", "check_variants", "compare", "planned", "resume_study", "run_study"]


@dataclass(frozen=True)
class Study:
    """A study on disk: its plan, how far its runs are, and what they say."""

    folder: StudyFolder
    plan: StudyPlan

    @classmethod
    def load(cls, folder: Path | str) -> Study:
        """Read a study from its folder."""
        home = StudyFolder(as_path("folder", folder))
        return cls(home, home.plan())

    @property
    def status(self) -> list[RunStatus]:
        """How far every run is."""
        return self.folder.status(self.plan)

    @property
    def results(self) -> list[BenchmarkResults]:
        """The finished runs, benchmark by benchmark."""
        return read_results(self.folder, self.plan)

    def summaries(self, measure: str | None = None) -> list[BenchmarkSummary]:
        """Return a table and a verdict for each benchmark, by a measure of ``metrics.jsonl``."""
        return [summarize_benchmark(self.plan, results, measure) for results in self.results]

    def table(self, measure: str | None = None) -> ResultTable:
        """Return all numbers of all variants on all benchmarks."""
        return number_table(self.summaries(measure))

    def curves(self, measure: str | None = None, against: str = "epochs") -> dict[str, dict[str, list[MeanPoint]]]:
        """Return the mean of a measure, with its 95 % band, by benchmark and variant.

        ``against`` is "epochs", "seconds" or "arch_steps".
        """
        return {
            one.benchmark.name: study_curves(self.folder, self.plan, one, measure or one.usual_measure, against)
            for one in self.results
        }

    def top(self, k: int = 10) -> dict[str, list[TopArchitecture]]:
        """Return the k architectures that most runs found, by benchmark, with their votes, sizes and accuracies."""
        check_value("k", k, Count)
        return {one.benchmark.name: top_of_benchmark(self.plan, one, k) for one in self.results}

    def __repr__(self) -> str:
        done = sum(one.state == "finished" for one in self.status)
        return (
            f"<Study {self.folder.path}: {len(self.plan.variants)} variants, {done} of {self.plan.size} runs finished>"
        )


def compare(
    methods: str | Sequence[str] | Mapping[str, Mapping[str, Any]],
    *,
    seeds: int | Sequence[int] = 3,
    spaces: str | Sequence[str] = "nasbench201",
    data: str | Sequence[str] = "digits",
    out: Path | str,
    engine: str | Engine = "local",
    watch: Watch = lambda status: None,
    **options: Any,
) -> Study:
    """Search with every method, space, data and seed, and return the study; run again, it continues.

    ``methods`` are names, or variants by name with options of :class:`archgrad.SearchConfig`:
    ``{"mine": {"method": "darts", "settings": {"arch_optimizer.lr": 0.01}}}``. ``options`` are those of all runs, such
    as ``epochs=20``, and those of the engine: ``processes``, ``address``. Finished runs are never repeated.

    ``engine`` is "local", "ray" or "slurm", or an :class:`~archgrad.studies.engines.Engine` of yours. The runs are
    processes of their own, so everything is given by name; ``module:Name`` names an own part.
    """
    of_engines = [option for names in ENGINES.values() for option in names]
    given: dict[str, Any] = {name: options.pop(name) for name in of_engines if name in options}
    study = run_study(as_path("out", out), planned(methods, seeds, spaces, data, options), engine, given, watch)
    check_variants(study)
    return study


def resume_study(folder: Path | str) -> Study:
    """Compute the missing runs of a study as processes of this machine, and return the study."""
    study = run_study(as_path("folder", folder), None)
    check_variants(study)
    return study


def planned(
    methods: str | Sequence[str] | Mapping[str, Mapping[str, Any]],
    seeds: Any,
    spaces: str | Sequence[str],
    data: str | Sequence[str],
    common: Mapping[str, Any],
) -> StudyPlan:
    """Return the plan of a study from options in Python or on the command line."""
    given = methods if isinstance(methods, Mapping) else {name: {} for name in split_names("methods", methods)}
    for name, options in given.items():
        check_value(f"the options of {name!r}", options, Mapping[str, Any])
    tables = {str(name): options_table(options) for name, options in given.items()}
    content = {"seeds": seeds, "spaces": spaces, "data": data, "common": options_table(common), "variant": tables}
    return plan_of(content, "the study")


def run_study(
    out: Path,
    plan: StudyPlan | None,
    engine: str | Engine = "local",
    engine_options: Mapping[str, Any] | None = None,
    watch: Watch = lambda status: None,
    tell: Callable[[str], None] = lambda text: None,
    without: Sequence[str] = (),
) -> Study:
    """Begin a study, or continue and extend the one in its folder, until all runs have ended.

    Variants ``without`` leave the plan; their runs stay in the folder, and count again if they are added again.
    A finished study is only read. The caller may then ask :func:`check_variants` whether a variant has no result.
    """
    folder = StudyFolder(out)
    if plan is None and folder.exists() and folder.is_complete(begun := folder.plan()) and not folder.heartbeat().host:
        return Study(folder, begun)
    if plan is not None:
        check_plan(plan)  # before there is a folder
    with folder.locked():
        begun_plan = folder.plan() if folder.exists() else None
        wanted = begun_plan if plan is None else plan if begun_plan is None else begun_plan.extended(plan)
        if wanted is None:
            raise UserError(f"{out} is no study; name the methods to compare, or a file that describes a study.")
        wanted = wanted.without(without)
        threads = int(wanted.common.get("threads") or 1)
        made = engine if isinstance(engine, Engine) else make_engine(engine, threads, dict(engine_options or {}))
        wanted = fill_in_sizes(wanted, () if begun_plan is None else begun_plan.benchmarks, tell)
        check_plan(wanted)
        folder.write_plan(wanted)
        run_missing(folder, wanted, made, watch)
    return Study(folder, wanted)


def check_variants(study: Study) -> None:
    """Raise a UserError if no run of a variant has a result."""
    status = study.status
    finished = {one.run.variant.name for one in status if one.state == "finished"}
    lost = [variant.name for variant in study.plan.variants if variant.name not in finished]
    if lost:
        failed = next(one for one in status if one.run.variant.name == lost[0])
        raise UserError(
            f"all runs of {', '.join(lost)} failed ({failed.run.name}: {failed.reason}); the other runs are kept. Mend "
            f"it, then `archgrad compare {study.folder.path}` tries them again."
        )
