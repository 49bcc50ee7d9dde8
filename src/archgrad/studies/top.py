"""The best architectures of a search by its own probabilities, and of a study by votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from archgrad.config.resolve import space_of, task_of
from archgrad.loop import SearchResult
from archgrad.spaces import Cost, Genotype
from archgrad.studies.plan import PlannedRun, StudyPlan
from archgrad.studies.results import BenchmarkResults
from archgrad.tables import tables_for

__all__ = ["TopArchitecture", "top_of_benchmark", "top_of_run"]


@dataclass(frozen=True)
class TopArchitecture:
    """An architecture with the size of its network as searched, and its accuracies where a table has them.

    ``score`` is the product of the probabilities that chose it in a search, and ``votes`` the number of runs of a study
    that found it, ``of`` all finished ones.
    """

    genotype: Genotype
    cost: Cost
    accuracies: Mapping[str, float]
    score: float | None = None
    votes: int | None = None
    of: int | None = None

    def __str__(self) -> str:
        by = f"score {self.score:.3g}" if self.score is not None else f"found by {self.votes} of {self.of} runs"
        known = [f"{name} {accuracy:.2f}" for name, accuracy in self.accuracies.items()]
        return f"{self.genotype}\n    {', '.join([by, str(self.cost), *known])}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found = {"genotype": str(self.genotype), "score": self.score, "votes": self.votes, "of": self.of}
        plain = {name: value for name, value in found.items() if value is not None}
        return {**plain, **asdict(self.cost), "accuracies": dict(self.accuracies)}


def top_of_run(folder: Path | str, k: int) -> list[TopArchitecture]:
    """Return the k most probable architectures of a finished search."""
    result = SearchResult.load(folder)
    return [
        TopArchitecture(one, result.cost(one), _accuracies(result.space.name, one), score=score)
        for one, score in result.top(k)
    ]


def top_of_benchmark(plan: StudyPlan, results: BenchmarkResults, k: int) -> list[TopArchitecture]:
    """Return the k architectures that most runs of a benchmark found; the one found first leads a tie."""
    runs = [run for seed in results.seeds for own in results.runs.values() if (run := own.get(seed)) is not None]
    votes = Counter(run.genotype for run in runs if run.genotype is not None)
    config = plan.config(PlannedRun(results.benchmark, plan.variants[0], plan.seeds[0]))
    space, data = space_of(config), config.load_data()
    shape = (task_of(config).outputs(data), data.channels, data.image_size)
    found = []
    for text, count in votes.most_common(k):
        genotype = Genotype.parse(text)
        accuracies = _accuracies(space.name, genotype)
        found.append(TopArchitecture(genotype, space.count(genotype, *shape), accuracies, votes=count, of=len(runs)))
    return found


def _accuracies(space: str, genotype: Genotype) -> dict[str, float]:
    return {name: value for table in tables_for(space) for name, value in table.accuracies(genotype).items()}
