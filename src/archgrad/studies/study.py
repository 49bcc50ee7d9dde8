"""Start, continue and read a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, shortened
from archgrad.files import as_path
from archgrad.studies.checklist import FilledItem, fill_in
from archgrad.studies.coordinator import Watch, run_missing
from archgrad.studies.engines import ENGINES, make_engine
from archgrad.studies.facts import facts_of
from archgrad.studies.fairness import check_plan, settled
from archgrad.studies.folder import RunStatus, StudyFolder
from archgrad.studies.plan import StudyPlan, Variant, grid_of_benchmarks, seeds_of
from archgrad.studies.results import BenchmarkResults, read_results
from archgrad.studies.summary import BenchmarkSummary, summarize_benchmark

__all__ = ["Study", "compare", "planned", "run_study"]

ENGINE_OPTIONS = tuple(option for options in ENGINES.values() for option in options)


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

    def checklist(self) -> list[FilledItem]:
        """Return the checklist of Lindauer and Hutter (2020), filled in from the runs."""
        return fill_in(facts_of(self.folder, self.plan, self.results))

    def __repr__(self) -> str:
        done = sum(one.state == "finished" for one in self.status)
        return (
            f"<Study {self.folder.path}: {len(self.plan.variants)} variants, {done} of {self.plan.size} runs finished>"
        )


def compare(
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    *,
    seeds: int | Sequence[int] = 3,
    spaces: str | Sequence[str] = "nasbench201",
    data: str | Sequence[str] = "digits",
    out: Path | str,
    engine: str = "local",
    watch: Watch = lambda status: None,
    **options: Any,
) -> Study:
    """Search with every method, space, data and seed, and return the study; run again, it continues.

    ``methods`` are names, or variants by name with options of :class:`archgrad.SearchConfig`:
    ``{"mine": {"method": "darts", "settings": {"arch_optimizer.lr": 0.01}}}``. ``options`` are those of all runs, such
    as ``epochs=20``, and those of the engine: ``processes``, ``address``. Finished runs are never repeated.

    The runs are processes of their own, so everything is given by name; ``module:Name`` names an own part.
    """
    given: dict[str, Any] = {name: options.pop(name) for name in ENGINE_OPTIONS if name in options}
    variants = methods if isinstance(methods, Mapping) else {name: {} for name in methods}
    plan = planned(variants, seeds, spaces, data, options)
    return run_study(as_path("out", out), plan, engine, given, watch)


def planned(
    variants: Mapping[str, Mapping[str, Any]],
    seeds: Any,
    spaces: str | Sequence[str],
    data: str | Sequence[str],
    common: Mapping[str, Any],
) -> StudyPlan:
    """Return the plan of a study from options in Python or on the command line."""
    made = []
    for name, options in variants.items():
        if not isinstance(options, Mapping):
            raise UserError(f"the options of {name!r} are {shortened(options)}; give a dictionary.")
        method = options.get("method", name)
        if not isinstance(method, str):
            raise UserError(f"the method of {name!r} is an object, but runs are processes of their own; give its name.")
        made.append(Variant(str(name), method, {key: value for key, value in options.items() if key != "method"}))
    places = grid_of_benchmarks(_listed(spaces), _listed(data))
    return StudyPlan(tuple(made), places, seeds_of(seeds), dict(common))


def _listed(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def run_study(
    out: Path,
    plan: StudyPlan | None,
    engine: str = "local",
    engine_options: Mapping[str, Any] | None = None,
    watch: Watch = lambda status: None,
    tell: Callable[[str], None] = lambda text: None,
) -> Study:
    """Begin a study, or continue and extend the one in its folder, until all runs have ended."""
    folder = StudyFolder(out)
    with folder.locked():
        begun = folder.plan() if folder.exists() else None
        wanted = begun if plan is None else plan if begun is None else begun.extended(plan)
        if wanted is None:
            raise UserError(f"{out} is no study; name the methods to compare, or a file that describes a study.")
        wanted = settled(wanted, () if begun is None else begun.benchmarks, tell)
        check_plan(wanted)
        made = make_engine(engine, int(wanted.common.get("threads") or 1), dict(engine_options or {}))
        folder.write_plan(wanted)
        failures = run_missing(folder, wanted, made, watch)
    study = Study(folder, wanted)
    _check_failures(study, failures)
    return study


def _check_failures(study: Study, failures: Mapping[str, str]) -> None:
    """Reject a study in which no run of a variant has a result."""
    finished = {one.run.variant.name for one in study.status if one.state == "finished"}
    lost = [variant.name for variant in study.plan.variants if variant.name not in finished]
    if lost:
        name = next(name for name in failures if name.partition("/")[2].startswith(f"{lost[0]}-seed"))
        raise UserError(
            f"all runs of {', '.join(lost)} failed ({name}: {failures[name]}); the other runs are kept. Mend it, then "
            f"`archgrad compare {study.folder.path}` tries them again."
        )
