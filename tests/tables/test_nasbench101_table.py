from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from records101 import CHAIN, PAIR, SKIP, TURNED, converted, record, small, write
from reference.nasbench1shot1_cells import genotypes, hashed_modules

from archgrad.diagnostics import Snapshot
from archgrad.errors import UserError
from archgrad.spaces import NASBench1Shot1
from archgrad.spaces.nasbench101 import INPUT, MAXPOOL3X3, OUTPUT, Module, module_of
from archgrad.tables import TABLES, CellLookup
from archgrad.tables.nasbench101.table import (
    PUBLISHED_OPTIMA,
    CellTable,
    find_cells,
    open_cells,
    spaces_containing,
)


def test_a_table_answers(parquet: Path) -> None:
    table = open_cells(parquet)
    assert len(table) == 3
    assert table.epochs == (36, 108)
    found = table.query(TURNED)
    assert found == table.find(PAIR)
    assert found.accuracies("test") == pytest.approx((70, 75, 80))
    assert (found.test, found.valid) == pytest.approx((75, 90))
    assert found.spread("test") == pytest.approx(stdev([70, 75, 80]))
    assert (found.seconds, found.parameters, found.hash, found.module) == (1080, 7, PAIR.hash, PAIR)
    assert table.query(CHAIN).spread("valid") == 0
    assert table.query(CHAIN, 36).test == pytest.approx(50)
    assert table.find(PAIR, 36) is None
    assert (table.best().hash, table.best("valid").hash) == (CHAIN.hash, PAIR.hash)
    assert [table.rank(module) for module in (CHAIN, PAIR, SKIP)] == [1, 2, 3]
    assert [table.rank(module, "valid") for module in (CHAIN, PAIR, SKIP)] == [2, 1, 3]


def test_equal_cells_share_the_better_rank(tmp_path: Path) -> None:
    table = open_cells(
        converted(write(tmp_path / "a.tfrecord", *(record(module, 0.5) for module in (SKIP, CHAIN, PAIR))))
    )
    assert [table.rank(module) for module in (CHAIN, PAIR, SKIP)] == [1, 1, 1]
    assert table.best().hash == SKIP.hash


def test_questions_without_an_answer(parquet: Path) -> None:
    table = open_cells(parquet)
    other = Module(CHAIN.matrix, (INPUT, MAXPOOL3X3, OUTPUT))
    assert table.find(other) is None
    with pytest.raises(UserError, match=f"the cell {other.hash} is not in .*with 108 epochs.*3 cells"):
        table.query(other)
    with pytest.raises(UserError, match="with 36 epochs"):
        table.query(PAIR, 36)
    with pytest.raises(UserError, match="no cells trained for 12 epochs; choose from: 36, 108"):
        table.query(PAIR, 12)
    with pytest.raises(UserError, match=r"unknown value of measure: 'train'.*valid, test"):
        table.best("train")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="unknown value of measure: 'loss'"):
        table.query(PAIR).accuracies("loss")


@pytest.fixture(scope="module")
def space_1(tmp_path_factory: pytest.TempPathFactory) -> CellTable:
    """Every cell of space 1, with test accuracies that grow from 0.25 in steps of 2⁻¹³."""
    modules = [module for _, module in hashed_modules(NASBench1Shot1(number=1))]
    records = (record(module, 0.25 + place / 2**13, place / 2**13) for place, module in enumerate(modules))
    folder = tmp_path_factory.mktemp("space")
    (folder / "nasbench101").mkdir()
    return open_cells(converted(write(folder / "nasbench101" / "nasbench101.tfrecord", *records)))


def test_a_table_of_a_whole_space(space_1: CellTable) -> None:
    for genotype in islice(genotypes(NASBench1Shot1(number=1)), 0, None, 5003):
        found = space_1.query(genotype)
        assert found.module.hash == found.hash == module_of(genotype).hash
        assert PUBLISHED_OPTIMA[1].regret(found)["valid"] == pytest.approx(100 - found.valid - 4.928)
        assert spaces_containing(genotype) == (1,)
        assert 1 in spaces_containing(found.module)


def test_modules_outside_of_all_spaces() -> None:
    assert spaces_containing(SKIP) == ()


# --- finding ------------------------------------------------------------------------------------------------------


def test_tables_are_found_where_they_should_be(tmp_path: Path, parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    assert find_cells() is None
    with pytest.raises(UserError, match=r"archgrad convert nasbench_only108.tfrecord -o nasbench101.parquet"):
        open_cells()
    folder = tmp_path / "nasbench101"
    folder.mkdir()
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    small(folder / "nasbench_only108.tfrecord")
    assert find_cells() is None
    command = f"archgrad convert {folder / 'nasbench_only108.tfrecord'} -o {folder / 'nasbench101.parquet'}, "
    with pytest.raises(UserError, match=command):
        open_cells()
    own = parquet.rename(folder / "nasbench101.parquet")
    assert open_cells().source == str(own)


# --- the oracle ---------------------------------------------------------------------------------------------------


def oracle_of(table: CellTable) -> CellLookup:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("archgrad.tables.nasbench101.lookup.data_files", lambda *names: [table.path])
        patch.setattr("archgrad.tables.nasbench101.lookup.open_cells", lambda: table)
        (oracle,) = TABLES["nasbench101"].oracle(NASBench1Shot1(number=1), ("cifar10",)).callbacks
    return oracle


def test_the_oracle_logs_accuracy_and_regret(space_1: CellTable) -> None:
    table, space = space_1, NASBench1Shot1(number=1)
    genotype = next(genotypes(space))
    measured = oracle_of(table).measure_epoch(Snapshot(space, {}, genotype), None)
    found, optimum = table.query(genotype), PUBLISHED_OPTIMA[1]
    assert measured == pytest.approx(
        {
            "oracle_cifar10_test_108ep": found.test,
            "oracle_cifar10_valid_108ep": found.valid,
            "regret_cifar10_test_108ep": 100 - found.test - optimum.test_error,
            "regret_cifar10_valid_108ep": 100 - found.valid - optimum.valid_error,
        },
        abs=1e-4,
    )


def test_a_table_has_the_accuracies_of_a_cell(
    space_1: CellTable, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genotype = next(genotypes(NASBench1Shot1(number=1)))
    places = {"known": space_1, "unknown": open_cells(parquet), "nowhere": None}
    found = {}
    for name, cells in places.items():
        monkeypatch.setattr("archgrad.tables.nasbench101.lookup.find_cells", lambda cells=cells: cells)
        found[name] = TABLES["nasbench101"].accuracies(genotype)
    record = space_1.query(genotype)
    known = {"oracle_cifar10_test_108ep": record.test, "oracle_cifar10_valid_108ep": record.valid}
    assert found == {"known": known, "unknown": {}, "nowhere": {}}


def test_the_oracle_is_silent_on_cells_it_does_not_know(parquet: Path, said: list[str]) -> None:
    space = NASBench1Shot1(number=1)
    oracle = oracle_of(open_cells(parquet))
    snapshot = Snapshot(space, {}, next(genotypes(space)))
    assert oracle.measure_epoch(snapshot, None) == oracle.measure_epoch(snapshot, None) == {}
    assert said == [f"{parquet} lacks cells that this search comes across; those have no oracle."]


def test_a_table_that_goes_away_does_not_stop_a_search(parquet: Path, said: list[str]) -> None:
    table = open_cells(parquet)
    oracle = oracle_of(table)
    parquet.unlink()
    assert (
        oracle.measure_epoch(Snapshot(NASBench1Shot1(number=1), {}, next(genotypes(NASBench1Shot1(number=1)))), None)
        == {}
    )
    (sentence,) = said
    assert sentence.startswith("no oracle accuracy from now on: ")


def test_a_search_logs_its_oracle_and_regret(
    archgrad: Any, space_1: CellTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHGRAD_DATA", str(space_1.path.parent.parent))
    small = ("--channels", 2, "--cells", 3, "--limit", 40, "--batch-size", 10, "--epochs", 1)
    out = archgrad.run("search", "--space", "nasbench1shot1-1", *small, "--oracle", "cifar10", "--out", "run")
    assert "mean error minus 5.449 % (4.928 % in validation), the lowest of any run in the space as published" in out
    (line,) = Path("run/metrics.jsonl").read_text().splitlines()
    epoch = json.loads(line)
    accuracy, regret = epoch["oracle_cifar10_test_108ep"], epoch["regret_cifar10_test_108ep"]
    assert accuracy == pytest.approx(epoch["oracle_cifar10_valid_108ep"] + 25)
    assert regret == pytest.approx(100 - accuracy - 5.449, abs=1e-3)


@pytest.mark.parametrize("problem", ["unconverted", "file", "library", "epochs"])
def test_a_search_goes_on_without_an_oracle(
    archgrad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    (tmp_path / "nasbench101").mkdir()
    source = write(tmp_path / "nasbench101" / "nasbench101.tfrecord", record(SKIP, 0.5, epochs=4))
    path = converted(source)
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    told = {
        "unconverted": "convert it once with: archgrad convert",
        "file": "is not a table of NAS-Bench-101",
        "library": "needs pyarrow",
        "epochs": "no cells trained for 108 epochs",
    }
    if problem == "unconverted":
        path.rename(source.with_name("nasbench_full.tfrecord"))
    elif problem == "file":
        path.write_bytes(path.read_bytes()[:100])
    elif problem == "library":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    size = ("--channels", 2, "--cells", 3, "--limit", 40, "--batch-size", 10, "--epochs", 1)
    out = archgrad.run("search", "--space", "nasbench1shot1-1", *size, "--oracle", "cifar10", "--out", "run")
    assert "no oracle accuracy: " in out
    assert told[problem] in " ".join(out.split())
    assert "oracle_cifar10" not in json.loads(Path("run/metrics.jsonl").read_text())
