from __future__ import annotations

from pathlib import Path

import pytest
from each_of import each_of

from archgrad import UserError
from archgrad.studies.plan import (
    Benchmark,
    StudyPlan,
    Variant,
    plan_from_toml,
    plan_of,
    plan_to_toml,
    seeds_of,
)

PLAN = StudyPlan(
    (Variant("darts", "darts"), Variant("fast", "darts", {"epochs": 3, "settings": {"arch_optimizer.lr": 0.01}})),
    (Benchmark("small", "nasbench201", "digits", {"batch_size": 16, "settings": {"space.exclude": ["none"]}}),),
    (5, 7),
    {"epochs": 9, "channels": 4, "settings": {"weights.lr": 0.1}},
)


def test_all_variants_come_before_the_next_seed() -> None:
    assert [run.name for run in PLAN.runs()] == [
        "small/darts-seed5", "small/fast-seed5", "small/darts-seed7", "small/fast-seed7",
    ]  # fmt: skip


def test_options_of_a_variant_are_above_those_of_its_benchmark_and_of_all() -> None:
    slow, fast, *_ = (PLAN.config(run) for run in PLAN.runs())
    assert (slow.epochs, fast.epochs, fast.batch_size, fast.seed) == (9, 3, 16, 5)
    assert fast.settings == {"weights.lr": 0.1, "space.exclude": ["none"], "arch_optimizer.lr": 0.01}
    assert slow.threads == 1


def test_a_plan_is_the_same_after_a_file(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(plan_to_toml(PLAN))
    assert plan_from_toml(tmp_path / "study.toml") == PLAN


def test_a_file_names_variants_and_a_grid(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'seeds = 2\nspaces = ["nasbench201", "s2"]\ndata = ["digits"]\n[common]\nepochs = 4\n'
        '[variant.darts]\n[variant.crossed]\nmethod = "lambda-darts-paper"\nset.layer-alignment.weight = 0.5\n'
    )
    plan = plan_from_toml(file)
    assert plan.size == 8
    assert [one.name for one in plan.benchmarks] == ["nasbench201-digits", "s2-digits"]
    assert [(one.name, one.method) for one in plan.variants] == [("darts", "darts"), ("crossed", "lambda-darts-paper")]
    assert plan.variants[1].options == {"settings": {"layer-alignment.weight": 0.5}}


@each_of(
    [
        ('[variant."../up"]\n', "cannot be part of a path"),
        ("[variant.a]\nseed = 3\n", "seed cannot be an option"),
        ("[variant.a]\nepoch = 3\n", "did you mean 'epochs'"),
        ("seeds = [1, 1]\n[variant.a]\n", "the seed 1 is given twice"),
        ("seeds = 0\n[variant.a]\n", "seeds is 0"),
        ("seeds = 'x'\n[variant.a]\n", "give a number such as 10"),
        ("seed = 3\n[variant.a]\n", "did you mean 'seeds'"),
        ("[variant.a]\n[variant.A]\n", "given twice"),
        ("seeds = 99999\n[variant.a]\n[variant.b]\n", "would have 199,998 runs"),
        ("", "at least one variant"),
        ("variant = 3", "no tables"),
        ('format = "other"\n[variant.a]\n', "does not have the format"),
        ('data = ["nothing"]\n[variant.a]\n', "unknown data"),
    ]
)
def test_a_bad_file_is_a_sentence(text: str, sentence: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.toml"
        file.write_text(text)
        with pytest.raises(UserError) as error:
            plan_from_toml(file)
    assert sentence in str(error.value), str(error.value)


def test_all_variants_that_are_not_there_are_named() -> None:
    assert [one.name for one in PLAN.without(["fast"]).variants] == ["darts"]
    with pytest.raises(UserError, match=r"'slow, other'.*darts, fast"):
        PLAN.without(["slow", "fast", "other"])


def test_seeds_are_a_number_or_a_list() -> None:
    assert seeds_of("10") == tuple(range(10))
    assert seeds_of("100-102,7") == (100, 101, 102, 7)


def test_a_begun_study_takes_new_variants_and_seeds_but_no_other_options() -> None:
    more = StudyPlan((Variant("gaea", "gaea"),), PLAN.benchmarks, (9,), PLAN.common)
    grown = PLAN.extended(more)
    assert [one.name for one in grown.variants] == ["darts", "fast", "gaea"]
    assert grown.seeds == (5, 7, 9)
    with pytest.raises(UserError, match="other common options \\(epochs\\)"):
        PLAN.extended(StudyPlan(PLAN.variants, PLAN.benchmarks, (5,), {**PLAN.common, "epochs": 10}))
    with pytest.raises(UserError, match="variant 'fast' with other options"):
        PLAN.extended(StudyPlan((Variant("fast", "gaea"),), PLAN.benchmarks, (5,), PLAN.common))


def test_a_begun_benchmark_keeps_the_sizes_that_the_study_chose() -> None:
    asked = StudyPlan(PLAN.variants, (Benchmark("small", "nasbench201", "digits"),), (5,), PLAN.common)
    assert PLAN.extended(asked).benchmarks == PLAN.benchmarks


def test_paths_of_data_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (benchmark,) = plan_of({"data": ["folder:photos"], "variant": {"darts": {}}}, "a test").benchmarks
    assert benchmark.data == f"folder:{tmp_path / 'photos'}"
    assert benchmark.name == "nasbench201-folder-photos"
