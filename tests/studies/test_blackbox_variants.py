"""Searches without gradients as variants of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from each_of import each_of

from archgrad import UserError
from archgrad.studies.curves import study_curves
from archgrad.studies.fairness import check_plan, differences, fill_in_sizes
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, StudyPlan, Variant
from archgrad.studies.results import read_results
from archgrad.studies.worker import run_planned

BENCHMARK = Benchmark("b", "nasbench201", "digits")
CIFAR = Benchmark("c", "nasbench201", "cifar10")


def plan_of(*variants: Variant, **common: object) -> StudyPlan:
    return StudyPlan(variants, (BENCHMARK,), (0, 1), common)


def test_a_run_without_gradients_is_a_run_directory_like_others(tmp_path: Path) -> None:
    plan, folder = plan_of(Variant("cells", "random-cells")), StudyFolder(tmp_path)
    for run in plan.runs():
        (tmp_path / run.name).mkdir(parents=True)
        (tmp_path / run.name / "metrics.jsonl").write_text("half a line")  # of a killed process
        run_planned(folder, plan, run)
    (results,) = read_results(folder, plan)
    found = {seed: one.genotype for seed, one in results.runs["cells"].items()}
    assert len(set(found.values())) == 2
    assert [one.state for one in folder.status(plan)] == ["finished"] * 2
    assert list(study_curves(folder, plan, results, "queries", "epochs")) == ["cells"]
    assert study_curves(folder, plan, results, "queries", "seconds") == {}, "its time is simulated"


def test_it_searches_the_space_that_all_variants_share() -> None:
    plan = fill_in_sizes(plan_of(Variant("gaea", "gaea"), Variant("cells", "random-cells"), epochs=2))
    assert [plan.space(run).exclude for run in plan.runs()][:2] == [("none",)] * 2
    alone = plan_of(Variant("cells", "random-cells"))
    assert [alone.space(run).exclude for run in alone.runs()] == [()] * 2
    assert any("cells has no epochs" in one for one in differences(plan, plan.benchmarks[0]))


def test_its_settings_are_its_knobs_and_its_budget() -> None:
    options = {"settings": {"blackbox.population": 5, "blackbox.queries": 20}}
    plan = StudyPlan((Variant("small", "regularized-evolution", options),), (CIFAR,), (0, 1))
    check_plan(plan)
    assert plan.variants[0].blackbox_settings == {"population": 5, "queries": 20}
    assert "20 queries" in next(differences(plan, plan.benchmarks[0]))


def test_queries_without_a_table_are_refused_before_anything_runs() -> None:
    with pytest.raises(UserError, match="no table has short trainings of the space 'nasbench201' on 'digits'"):
        check_plan(plan_of(Variant("random-search", "random-search")))
    check_plan(plan_of(Variant("zero-cost", "zero-cost"), Variant("cells", "random-cells")))


def test_the_notes_tell_a_budget_from_no_training_at_all() -> None:
    variants = (Variant("random-search", "random-search"), Variant("zero-cost", "zero-cost"))
    plan = StudyPlan(variants, (CIFAR,), (0,))
    assert list(differences(plan, CIFAR)) == [
        "random-search has no epochs: it searches without gradients, within 12,000 seconds (simulated)",
        "zero-cost has no epochs: it searches without gradients, and trains nothing",
    ]


@each_of(
    [
        ({"epochs": 3}, "epochs cannot be set: regularized-evolution has no weights"),
        ({"settings": {"weights.lr": 0.1}}, "weights.lr cannot be set"),
        ({"settings": {"blackbox.populaton": 5}}, "did you mean 'population'"),
        ({"settings": {"blackbox.population": 0}}, "population"),
    ]
)
def test_other_options_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match="the variant 'small' on b") as error:
        check_plan(plan_of(Variant("small", "regularized-evolution", options)))
    assert sentence in str(error.value)
