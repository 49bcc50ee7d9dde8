from __future__ import annotations

from dataclasses import replace

import pytest

from archgrad import UserError
from archgrad.config.resolve import space_of
from archgrad.studies.fairness import check_plan, differences, fill_in_sizes
from archgrad.studies.plan import Benchmark, StudyPlan, Variant

BENCHMARK = Benchmark("b", "nasbench201", "digits")
PLAN = StudyPlan((Variant("darts", "darts"), Variant("gdas", "gdas")), (BENCHMARK,), (0,), {"epochs": 2, "channels": 4})


def sizes(plan: StudyPlan) -> set[tuple[object, ...]]:
    configs = [plan.config(run) for run in plan.runs()]
    return {(one.epochs, one.channels, one.cells, one.batch_size, space_of(one)) for one in configs}


def test_all_variants_get_the_sizes_that_the_study_leaves_open() -> None:
    plan = fill_in_sizes(PLAN)
    ((_, _, cells, batch_size, _),) = sizes(plan)
    assert (cells, batch_size) == (5, 64)  # DARTS on NAS-Bench-201: 5 cells in a stage, batches of 64
    assert list(differences(plan, plan.benchmarks[0])) == []


def test_what_one_method_leaves_out_of_its_space_is_left_out_for_all() -> None:
    mixed = replace(PLAN, variants=(*PLAN.variants, Variant("gaea", "gaea")))
    fair = fill_in_sizes(mixed)
    spaces = {fair.space(run) for run in fair.runs()}
    assert len(spaces) == 1
    alone = {space_of(plan.config(run)).exclude for plan in (PLAN, mixed) for run in plan.runs()}
    assert spaces.pop().exclude == max(alone, key=len)


def test_a_variant_that_says_otherwise_is_named() -> None:
    long = Variant("long", "darts", {"epochs": 7, "batch_size": 16})
    plan = fill_in_sizes(replace(PLAN, variants=(*PLAN.variants, long)))
    assert list(differences(plan, plan.benchmarks[0])) == [
        "epochs: 7 for long, 2 for the others",
        "batch_size: 16 for long, 64 for the others",
    ]


def test_a_search_on_one_level_has_another_split_and_the_table_says_so() -> None:
    plan = fill_in_sizes(replace(PLAN, variants=(*PLAN.variants, Variant("gaea", "gaea"))))
    (sentence,) = differences(plan, plan.benchmarks[0])
    assert sentence == (
        "split: all images train both weights and α (more steps in an epoch) for gaea, 0.5 : 0.5 for weights : α for "
        "the others"
    )


def test_what_has_begun_stays_as_it_is() -> None:
    begun = fill_in_sizes(PLAN)
    later = replace(begun, variants=(*begun.variants, Variant("gaea", "gaea")))
    assert fill_in_sizes(later, begun.benchmarks).benchmarks == begun.benchmarks


def test_a_plan_that_cannot_run_names_the_variant_and_the_benchmark() -> None:
    with pytest.raises(UserError, match="the variant 'x' on b: unknown method 'dartz'; did you mean 'darts'"):
        check_plan(replace(PLAN, variants=(Variant("x", "dartz"),)))


def test_a_variant_has_no_time_limit_of_its_own() -> None:
    limited = replace(PLAN, variants=(*PLAN.variants, Variant("short", "gaea", {"time_limit": 2.0})))
    with pytest.raises(UserError, match=r"'short' is 2\.0; all variants of a benchmark share its sizes"):
        check_plan(limited)
