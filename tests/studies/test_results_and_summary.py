from __future__ import annotations

import json
from pathlib import Path

import pytest

import archgrad as ag
from archgrad import UserError
from archgrad.studies.plan import Variant
from archgrad.studies.results import read_results
from archgrad.studies.summary import detail_table, main_table, number_table, pair_table, rank_table
from archgrad.studies.tables import ResultTable, render
from archgrad.tables.nasbench201.lookup import NASBench201Table
from tests.studies.made_runs import CELL, COLLAPSED, make_study

DARTS, GAEA = Variant("darts", "darts"), Variant("gaea", "gaea")
ORACLE = "oracle_cifar10_test_200ep"


@pytest.fixture(autouse=True)
def _small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A space of four cells, of which the best has 94 %."""
    cells = (90.0, 91.0, 92.0, 94.0)
    monkeypatch.setattr(NASBench201Table, "values", lambda self, space, name: cells if name == ORACLE else None)


def rows_of(table: ResultTable) -> dict[object, dict[str, object]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.cells}


def study_of(path: Path, *variants: Variant) -> ag.Study:
    def record(accuracy: float, held_out: float, **more: object) -> dict[str, object]:
        return {ORACLE: accuracy, "heldout_accuracy": held_out, "oracle_cifar100_test_200ep": accuracy - 20, **more}

    def operations(*numbers: float) -> dict[str, float]:
        return {f"probability_{name}": number for name, number in zip("abc", numbers, strict=True)}

    runs = {
        "b-cifar10/darts-seed0": record(91.0, 50.0, **operations(0.5, 0.3, 0.2), genotype=COLLAPSED),
        "b-cifar10/darts-seed1": record(93.0, 52.0, **operations(0.5, 0.2, 0.3)),
        "b-cifar10/gaea-seed0": record(94.0, 60.0),
        "b-cifar10/gaea-seed1": {"genotype": None, "heldout_accuracy": 61.0},
        "b-cifar10/gaea-seed2": record(92.0, 59.0),
    }  # fmt: skip
    folder = make_study(path, runs, *(variants or (DARTS, GAEA)), seeds=3)
    folder.write_failures({"b-cifar10/darts-seed2": "something is wrong; mend it."})
    return ag.Study.load(path)


def test_the_main_table_counts_runs_and_collapses_and_finds_the_place_in_the_space(tmp_path: Path) -> None:
    (summary,) = study_of(tmp_path).summaries()
    assert summary.measure == ORACLE  # a run whose choices all tie has none, and does not change the measure
    rows = rows_of(main_table(summary))
    assert rows["darts"].pop("95 % interval")
    assert rows["darts"] == {
        "variant": "darts", "runs": "2 of 3", "mean ± std": "92.00 ± 1.41",
        "worse cells (%)": 50.0, "collapsed": "1 of 2", "minutes": 0.5, "published 1": "54.30 ± 0.00",
        "published 2": "54.30 ± 0.00",
    }  # fmt: skip  # 91 is better than 1 of 4 cells, 93 than 3 of 4
    assert rows["gaea"]["published 1"] is None
    assert rows["gaea"]["published 2"] == "94.10 ± 0.29"  # GAEA, Table 2


def test_the_notes_name_failures_protocols_and_differences(tmp_path: Path) -> None:
    (summary,) = study_of(tmp_path).summaries()
    notes = "\n".join(main_table(summary).notes)
    assert "failed: b-cifar10/darts-seed2: something is wrong; mend it." in notes
    assert "published 1: test accuracy on cifar10, searched on cifar10. NAS-Bench-201 with all five operations" in notes
    assert "not the same for all: split: all images train both weights and α" in notes
    assert "darts lacks 1 run (seed 2). gaea lacks 1 run (seed 1)." in str(summary.verdict)


def test_the_second_table_has_the_rest(tmp_path: Path) -> None:
    (summary,) = study_of(tmp_path).summaries()
    row = rows_of(detail_table(summary))["darts"]
    assert (row["median"], row["best"], row["worst"], row["regret"]) == (92.0, 93.0, 91.0, 2.0)
    assert row["agreement of seeds (τ)"] == pytest.approx(1 / 3)  # two of three pairs of operations keep their order
    assert row["oracle_cifar100_test_200ep"] == "72.00 ± 1.41"
    assert row["collapsed, 95 % interval"] == "9–91 %"  # Wilson's interval of 1 of 2


def test_variants_of_one_method_show_its_published_result_once(tmp_path: Path) -> None:
    study = study_of(tmp_path, Variant("darts", "darts"), Variant("gaea", "darts", {"epochs": 3}))
    rows = rows_of(main_table(study.summaries()[0]))
    assert [rows[name]["published 1"] for name in ("darts", "gaea")] == ["54.30 ± 0.00"] * 2


def test_own_settings_have_no_published_result(tmp_path: Path) -> None:
    own = Variant("darts", "darts", {"settings": {"arch_optimizer.lr": 0.1}})
    (summary,) = study_of(tmp_path, own, GAEA).summaries()
    assert "published 1" not in rows_of(main_table(summary))["darts"]
    assert rows_of(main_table(summary))["darts"]["published"] is None


def test_of_a_loss_the_least_is_the_best(tmp_path: Path) -> None:
    losses = {
        f"b-{data}/{name}-seed0": {"heldout_loss": loss, "heldout_accuracy": 1.0}
        for data in ("cifar10", "digits")
        for name, loss in (("darts", 1.0), ("gaea", 2.0))
    }
    make_study(tmp_path, losses, DARTS, GAEA, seeds=1, data=("cifar10", "digits"))
    summaries = ag.Study.load(tmp_path).summaries("heldout_loss")
    assert [one.verdict.best for one in summaries] == ["darts", "darts"]
    ranks = rank_table(summaries)
    assert ranks is not None
    assert ranks.cells == [["darts", 1.0], ["gaea", 2.0]]


def test_programs_get_plain_numbers_of_all_benchmarks_in_one_table(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    content = json.loads(render(study.table(), "json"))
    row = content["rows"][0]
    assert (row["benchmark"], row["measure"], row["variant"], row["runs"]) == ("b-cifar10", ORACLE, "darts", 2)
    assert row["std"] == pytest.approx(2**0.5)
    assert row["low"] < row["mean"] == 92.0 < row["high"]


def test_pairs_are_compared_over_the_seeds_that_both_have(tmp_path: Path) -> None:
    (summary,) = study_of(tmp_path).summaries("heldout_accuracy")
    ((first, second, seeds, difference, *_),) = pair_table(summary).cells
    assert (first, second, seeds, difference) == ("darts", "gaea", 2, "-9.50 ± 0.71")


def test_one_variant_alone_has_no_pairs(tmp_path: Path) -> None:
    make_study(tmp_path, {"b-cifar10/darts-seed0": {"heldout_accuracy": 5.0}}, DARTS, seeds=1)
    (summary,) = ag.Study.load(tmp_path).summaries()
    assert summary.verdict.pairs == ()
    assert "nothing to compare" in str(summary.verdict)
    assert len(number_table([summary]).rows) == 1


def test_an_unknown_measure_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'heldout_accuracy'"):
        study_of(tmp_path).summaries("heldout_acuracy")


def test_a_study_without_a_result_says_why(tmp_path: Path) -> None:
    folder = make_study(tmp_path, {}, DARTS, seeds=1)
    folder.write_failures({"b-cifar10/darts-seed0": "no data."})
    with pytest.raises(UserError, match=r"has no finished run \(b-cifar10/darts-seed0: no data\.\)"):
        read_results(folder, folder.plan())


def test_an_early_stop_counts_with_the_epoch_that_it_returned(tmp_path: Path) -> None:
    records = [{"heldout_accuracy": 70.0}, {"heldout_accuracy": 10.0, "stopped_to": 1}]
    folder = make_study(tmp_path, {"b-cifar10/darts-seed0": records}, DARTS, seeds=1)  # type: ignore[dict-item]
    (results,) = read_results(folder, folder.plan())
    assert results.values("heldout_accuracy") == {"darts": {0: 70.0}}
    assert results.runs["darts"][0].seconds == 60.0


def test_votes_count_the_runs_that_found_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NASBench201Table, "accuracies", lambda self, genotype: {ORACLE: 93.5})
    runs = {f"b-digits/darts-seed{seed}": {"genotype": one} for seed, one in enumerate([COLLAPSED, CELL, CELL, None])}
    make_study(tmp_path, runs, DARTS, seeds=4, data=("digits",))
    first, second = ag.Study.load(tmp_path).top(5)["b-digits"]
    assert (str(first.genotype), first.votes, first.of) == (CELL, 2, 4)
    assert (str(second.genotype), second.votes) == (COLLAPSED, 1)
    assert first.cost.parameters > second.cost.parameters > 0
    assert first.accuracies == {ORACLE: 93.5}
    assert [str(one.genotype) for one in ag.Study.load(tmp_path).top(1)["b-digits"]] == [CELL]
    with pytest.raises(UserError, match="k is 0"):
        ag.Study.load(tmp_path).top(0)


def test_curves_run_over_epochs_seconds_and_steps_of_the_architecture(tmp_path: Path) -> None:
    runs = {
        f"b-digits/{name}-seed0": [{"heldout_accuracy": 10.0}, {"seconds": 5.0, "heldout_accuracy": 20.0}]
        for name in ("darts", "gaea")
    }
    make_study(tmp_path, runs, DARTS, GAEA, seeds=1, data=("digits",))  # type: ignore[arg-type]
    study = ag.Study.load(tmp_path)

    def points(against: str) -> dict[str, list[tuple[float, float]]]:
        curves = study.curves("heldout_accuracy", against)["b-digits"]
        return {name: [(point.x, point.mean) for point in line] for name, line in curves.items()}

    assert points("epochs")["darts"] == [(1.0, 10.0), (2.0, 20.0)]
    assert points("seconds")["darts"] == [(30.0, 10.0), (35.0, 20.0)]
    # DARTS trains on half of the 1,797 images, in 14 batches of 64, and GAEA on the 1,617 not held out, in 25.
    assert points("arch_steps") == {"darts": [(14.0, 10.0), (28.0, 20.0)], "gaea": [(25.0, 10.0), (50.0, 20.0)]}
    with pytest.raises(UserError, match="unknown axis 'steps'"):
        study.curves(against="steps")
