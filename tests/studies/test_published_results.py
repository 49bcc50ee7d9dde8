from __future__ import annotations

import pytest

from archgrad.recipes import RECIPES
from archgrad.spaces import SPACES
from archgrad.studies.published_results import _results, published, published_by_protocol
from archgrad.tables.nasbench201.table import DATASETS

BLACK_BOX = {"random-search", "regularized-evolution", "reinforce", "bohb"}
NASBENCH201 = {
    "random-search": ("93.70 ± 0.36", "71.04 ± 1.08", "44.57 ± 1.25"),
    "regularized-evolution": ("93.92 ± 0.30", "71.84 ± 0.99", "45.54 ± 1.03"),
    "reinforce": ("93.85 ± 0.37", "71.71 ± 1.09", "45.25 ± 1.18"),
    "bohb": ("93.61 ± 0.52", "70.85 ± 1.28", "44.42 ± 1.49"),
    "random-nas": ("87.66 ± 1.69", "58.33 ± 4.34", "31.14 ± 3.88"),
    "darts": ("54.30 ± 0.00", "15.61 ± 0.00", "16.32 ± 0.00"),
    "darts-erm": ("84.39 ± 3.82", "54.81 ± 7.08", "31.82 ± 4.78"),
    "gdas": ("93.61 ± 0.09", "70.70 ± 0.30", "41.71 ± 0.98"),
    "pc-darts": ("93.41 ± 0.30", "67.48 ± 0.89", "41.31 ± 0.22"),
    "idarts": ("93.58 ± 0.32", "70.83 ± 0.48", "40.89 ± 0.68"),
    "gaea-bilevel": ("91.63 ± 2.57", "68.39 ± 4.47", "41.59 ± 4.20"),
    "gaea": ("94.10 ± 0.29", "72.60 ± 0.89", "45.81 ± 0.51"),
    "darts-minus": ("93.80 ± 0.40", "71.53 ± 1.51", "45.12 ± 0.82"),
    "beta-darts": ("94.36 ± 0.00", "73.51 ± 0.00", "46.34 ± 0.00"),
    "lambda-darts": ("94.36 ± 0.00", "73.51 ± 0.00", "46.34 ± 0.00"),
}


@pytest.mark.parametrize("method", NASBENCH201)
def test_the_table_of_nasbench201_is_that_of_the_papers(method: str) -> None:
    found = [published(method, "nasbench201", data, searched_on="cifar10")[0] for data in DATASETS]
    assert tuple(map(str, found)) == NASBENCH201[method]


@pytest.mark.parametrize(
    ("method", "space", "error"),
    [
        ("darts", "darts", "3.00 ± 0.14"),
        ("darts-2nd", "darts", "2.76 ± 0.09"),
        ("pc-darts", "darts", "2.57 ± 0.07"),
        ("gaea-pc-darts", "darts", "2.50 ± 0.06"),
        ("idarts", "darts", "2.37 ± 0.03"),
        ("lambda-darts", "darts", "2.52 ± 0.11"),
        ("lambda-sign-darts", "darts", "2.43 ± 0.05"),
        ("amended", "amended-a1", "2.81 ± 0.21"),
        ("amended", "amended-a2", "2.60 ± 0.15"),
    ],
)
def test_the_errors_in_the_darts_space_are_those_of_the_papers(method: str, space: str, error: str) -> None:
    first = published(method, space, "cifar10")[0]
    assert str(first) == error
    assert (first.protocol.metric, first.protocol.higher_is_better) == ("test error", False)


def test_longer_searches_are_a_protocol_of_their_own() -> None:
    methods = ["darts", "amended", "lambda-darts", "random-search"]
    columns = published_by_protocol(methods, "darts", "cifar10")
    (long,) = [column for protocol, column in columns.items() if "200 epochs" in protocol.evaluation]
    assert {method: str(result) for method, (result,) in long.items()} == {
        "darts": "6.18", "amended": "2.71", "lambda-darts": "2.66", "random-search": "3.29",
    }  # fmt: skip


def test_runs_are_those_that_the_source_states() -> None:
    assert [result.runs for result in published("gaea-pc-darts", "darts", "cifar10")] == [10]
    assert [result.runs for result in published("lambda-darts", "nasbench201", "cifar10")] == [4]
    assert [result.runs for result in published("idarts", "nasbench201", "cifar10")] == [None]
    assert published("gaea-pc-darts", "darts", "cifar10")[0].best == 2.39


def test_only_the_exact_protocol_is_returned() -> None:
    assert [str(one) for one in published("gaea", "nasbench201", "cifar100")] == ["73.43 ± 0.13"]
    assert [str(one) for one in published("gaea", "nasbench201", "cifar100", "cifar10")] == ["72.60 ± 0.89"]
    assert published("gaea", "nasbench201", "cifar10", "cifar100") == ()
    assert published("gaea", "darts", "cifar10") == published("lambda-darts", "darts-s1", "cifar10") == ()


def test_a_column_has_one_protocol() -> None:
    columns = published_by_protocol(["darts", "gdas", "gaea"], "nasbench201", "cifar100", "cifar10")
    assert [[(name, *map(str, found)) for name, found in column.items()] for column in columns.values()] == [
        [("darts", "15.61 ± 0.00"), ("gdas", "70.70 ± 0.30", "70.33 ± 0.87")],
        [("darts", "15.32 ± 0.00"), ("gaea", "72.60 ± 0.89")],
    ]
    for protocol, column in columns.items():
        assert {result.protocol for found in column.values() for result in found} == {protocol}


def test_all_names_are_known_and_all_sources_given() -> None:
    for result in _results():
        assert result.method in {*RECIPES, *BLACK_BOX}
        assert result.protocol.space in SPACES
        assert result.protocol.data in DATASETS
        assert result.source
    keys = [(one.method, one.protocol, one.source) for one in _results()]
    assert len(set(keys)) == len(keys)
