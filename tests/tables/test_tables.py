"""Every table says what it answers for; one from outside the package works in the commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from archgrad.spaces import SPACES, Genotype, SearchSpace
from archgrad.tables import TABLES, Answer, CellLookup, Oracle, Table, datasets, tables_for

DARTS = "Genotype(normal=[('skip_connect', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 1), "
DARTS += "('skip_connect', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 1)], normal_concat=[2, 3, 4, "
DARTS += "5], reduce=[('skip_connect', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 1), "
DARTS += "('skip_connect', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 1)], reduce_concat=[2, 3, 4, "
DARTS += "5])"


class ToyTable(Table):
    """Knows the cells of DARTS on one data set: all are equal."""

    title = "Toy"
    spaces = ("darts",)
    datasets = ("pictures",)
    suffixes = (".toy",)

    def is_available(self) -> bool:
        return True

    def has_form_of(self, cell: Any) -> bool:
        return isinstance(cell, Genotype) and cell.names == ("normal", "reduce")

    def oracle(self, space: SearchSpace, datasets: Sequence[str]) -> Oracle | None:
        return (
            Oracle((CellLookup(lambda genotype: {"oracle_pictures_test_1ep": 50.0}),), "accuracies of toys")
            if datasets
            else None
        )

    def look_up(self, cell: Any, path: Path | None) -> Answer:
        return Answer({"accuracy": 50.0}, "50 %")

    def best(self, path: Path) -> Answer:
        return Answer({"accuracy": 60.0}, "60 %")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "toy", ToyTable())


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_names_spaces_that_exist_and_suffixes_of_its_own(table: Table) -> None:
    assert set(table.spaces) <= set(SPACES)
    assert table.datasets
    others = [suffix for other in TABLES.values() if other is not table for suffix in other.suffixes]
    assert not set(table.suffixes) & set(others)


def test_tables_are_found_by_space() -> None:
    assert [table.title for table in tables_for("nasbench201")] == ["NAS-Bench-201"]
    assert tables_for("darts") == []
    assert datasets() == ("cifar10", "cifar100", "imagenet16-120")


def test_a_new_table_measures_a_search(archgrad: Any, toy: None) -> None:
    sizes = ("--channels", 2, "--cells", 3, "--limit", 40, "--batch-size", 20, "--epochs", 1)
    out = archgrad.run("search", "--space", "darts", *sizes, "--oracle", "pictures", "--out", "run")
    assert json.loads(Path("run/metrics.jsonl").read_text())["oracle_pictures_test_1ep"] == 50.0
    assert Path("run/oracle.txt").read_text() == "accuracies of toys\n"
    assert "its accuracy in the Toy table" in " ".join(out.split())


def test_a_new_table_is_queried(archgrad: Any, toy: None) -> None:
    assert archgrad("query", DARTS)[:2] == (0, "50 %\n")
    assert json.loads(archgrad.run("query", "--best", "--table", "some.toy", "--json")) == {"accuracy": 60.0}


def test_what_no_table_knows_is_said(archgrad: Any) -> None:
    sentence = " ".join(archgrad.error("query", DARTS).split())
    assert "give a cell of NAS-Bench-201 or NAS-Bench-101 or NAS-Bench-Macro" in sentence
    assert "must end in .csv for NAS-Bench-201, .parquet for NAS-Bench-101" in archgrad.error(
        "query", "--best", "--table", "some.thing"
    )
