"""The official folder becomes the CSV table: the right accuracies, and a sentence for every file that is not one."""

from __future__ import annotations

import bz2
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from official201 import NAMES, cell, content, pack, results, write_folder

from archgrad.errors import UserError
from archgrad.tables import convert_table, open_short_trainings, open_table
from archgrad.tables.nasbench201 import official_folder

FEW = NAMES[:3]
ENDS = ((60.0, 61.0, 63.5), (10.0,), (20.0, 21.0))
ROWS = """index,arch,cifar10_test,cifar100_test,imagenet16_test,cifar10_valid,cifar100_valid,imagenet16_valid,\
cifar10_valid_12ep,cifar100_valid_12ep,imagenet16_valid_12ep,cifar10_test_12ep,cifar100_test_12ep,imagenet16_test_12ep
0,{},61.5,63.5,63.5,62.5,62.5,62.5,61.0,61.0,61.0,60.0,62.0,62.0
1,{},10.0,12.0,12.0,11.0,11.0,11.0,11.0,11.0,11.0,10.0,12.0,12.0
2,{},20.5,22.5,22.5,21.5,21.5,21.5,21.0,21.0,21.0,20.0,22.0,22.0
"""
"""Validation images come second in their sets: one point more; test images third in cifar100 and imagenet: two."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """Three cells, which are all that the benchmark has in this test."""
    monkeypatch.setattr(official_folder, "CELLS", 3)
    return {index: cell(name, ends) for index, (name, ends) in enumerate(zip(FEW, ENDS, strict=True))}


def test_a_folder_gives_the_mean_over_the_seeds(tmp_path: Path, few: dict[int, Any]) -> None:
    source = write_folder(tmp_path / "folder", few, FEW)
    told: list[tuple[int, int]] = []
    counts = convert_table(source, tmp_path / "table.csv", lambda done, total: told.append((done, total)))
    assert (tmp_path / "table.csv").read_text() == ROWS.format(*FEW)
    assert set(counts.values()) == {3}
    assert told[-1][0] == told[-1][1]


def test_a_folder_without_some_short_trainings_leaves_their_columns_empty(tmp_path: Path, few: dict[int, Any]) -> None:
    for index, name in enumerate(FEW):
        few[index]["12"] = results(name, 12, (50.0, 52.0), ["cifar10-valid"])
    counts = convert_table(write_folder(tmp_path / "folder", few, FEW), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[2] == f"1,{FEW[1]},10.0,12.0,12.0,11.0,11.0,11.0,52.0,,,,,"
    assert [counts["cifar10_valid_12ep"], counts["cifar10_test_12ep"]] == [3, 0]


def test_a_folder_without_long_trainings_on_the_training_half_leaves_their_column_empty(
    tmp_path: Path, few: dict[int, Any]
) -> None:
    few[1]["200"]["dataset_seed"].pop("cifar10-valid")
    counts = convert_table(write_folder(tmp_path / "folder", few, FEW), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[2].startswith(f"1,{FEW[1]},10.0,12.0,12.0,,11.0,11.0,")
    assert [counts["cifar10_valid"], counts["cifar100_valid"], counts["cifar10_test"]] == [2, 3, 3]


def test_the_table_can_be_queried(tmp_path: Path, few: dict[int, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("csv_file", "table"):
        monkeypatch.setattr(f"archgrad.tables.nasbench201.{module}.CELLS", 3)
    convert_table(write_folder(tmp_path / "folder", few, FEW), tmp_path / "table.csv")
    table = open_table(tmp_path / "table.csv")
    assert [table.query(name)["cifar10"] for name in FEW] == [61.5, 10.0, 20.5]
    assert table.validation is not None
    assert [table.validation.query(name)["cifar100"] for name in FEW] == [62.5, 11.0, 21.5]
    assert open_short_trainings("imagenet16-120", tmp_path / "table.csv").accuracy(FEW[0]) == 61.0


# --- files that are not what they should be -------------------------------------------------------------------------


class Hostile:
    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, ("hacked",)


def set_accuracy(value: object) -> Callable[[dict[int, Any]], None]:
    def change(few: dict[int, Any]) -> None:
        few[1]["200"]["all_results"]["cifar100", 777]["eval_acc1es"]["x-test@199"] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda few: few.pop(1), r"lacks .*cell"),
        (lambda few: few[1].pop("200"), "cell 1 .* has no valid entry '200'"),
        (lambda few: few[1].update({"200": 5}), "has no valid entry '200'"),
        (lambda few: few[1]["200"].update(arch_str=FEW[0]), "its results are those of another cell"),
        (lambda few: few[1]["200"].pop("all_results"), "has no valid entry 'all_results'"),
        (lambda few: few[1]["200"]["dataset_seed"].pop("cifar10"), "has no valid entry 'cifar10'"),
        (lambda few: few[1]["200"]["dataset_seed"].update(cifar10=5), "has no valid entry 'cifar10'"),
        (lambda few: few[1]["200"]["dataset_seed"].update(cifar10=[1]), r"has no valid entry \('cifar10', 1\)"),
        (set_accuracy(101.0), r"accuracies \[101.0\] on cifar100, not from 0 to 100"),
        (set_accuracy(float("nan")), r"accuracies \[nan\] on cifar100"),
        (set_accuracy("90"), "has no valid entry 'x-test@199'"),
        (lambda few: few[1]["200"].update(more=Hostile()), r"asks to run (posix|nt)\.mkdir"),
        (lambda few: few[1]["200"].update(more=torch.ones(2)), "holds trained weights"),
    ],
)
def test_wrong_content_is_named_and_nothing_is_overwritten(
    tmp_path: Path, few: dict[int, Any], change: Callable[[dict[int, Any]], object], problem: str
) -> None:
    change(few)
    source = write_folder(tmp_path / "folder", few, FEW)
    out = tmp_path / "table.csv"
    out.write_text("mine")
    with pytest.raises(UserError, match=problem):
        convert_table(source, out)
    assert out.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "table.csv"]
    assert not Path("hacked").exists()


FOLDER = "give the unpacked folder NATS-tss-v1_0-3ffb9-simple"


def pickled(names: list[Any]) -> bytes:
    return bz2.compress(pickle.dumps({"meta_archs": names}))


def replace_by(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def damage(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


META, FIRST = "meta.pickle.pbz2", "000000.pickle.pbz2"
GOOD = pickle.dumps(content(FEW), protocol=4)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (damage(META, b""), "is truncated or damaged"),
        (damage(META, b"PK\x03\x04" + bytes(100)), "is truncated or damaged"),
        (damage(META, GOOD), "is truncated or damaged"),
        (damage(META, bz2.compress(GOOD[:-20])), "is truncated or damaged"),
        (damage(META, bz2.compress(GOOD)[:-20]), "is truncated or damaged"),
        (damage(META, bz2.compress(b"")), "is truncated or damaged"),
        (damage(META, bz2.compress(pickle.dumps([1]))), "has no valid entry 'meta_archs'"),
        (damage(META, pickled(FEW[:2])), "names 2 cells, 0 of them not in NAS-Bench-201; it needs all 3 once"),
        (damage(META, pickled([*FEW[:2], FEW[0]])), "names 3 cells"),
        (damage(META, pickled(["8:16:24:32:40"])), "names 1 cells, 1 of them not in"),
        (damage(META, pickled([{}])), "names 1 cells, 1 of them not in"),
        (damage(FIRST, b""), "000000.pickle.pbz2 is truncated or damaged"),
        (damage(FIRST, bz2.compress(GOOD[:-20])), "000000.pickle.pbz2 is truncated or damaged"),
        (damage(FIRST, bz2.compress(GOOD)), "cell 0 .* has no valid entry '200'"),
        (lambda folder: (folder / FIRST).unlink(), "lacks 1 of 3 cells, the first of them 000000"),
        (lambda folder: (folder / META).unlink(), "is no folder with the file meta.pickle.pbz2"),
        (lambda folder: replace_by(folder / FIRST, os.mkfifo), "is a pipe"),
        (lambda folder: replace_by(folder / FIRST, Path.mkdir), "is a folder"),
    ],
)
def test_wrong_folders_are_answered_with_a_sentence(
    tmp_path: Path, few: dict[int, Any], make: Callable[[Path], object], problem: str
) -> None:
    make(write_folder(tmp_path / "source", few, FEW))
    with pytest.raises(UserError, match=problem) as caught:
        convert_table(tmp_path / "source", tmp_path / "table.csv")
    assert not (tmp_path / "table.csv").exists()
    assert len(str(caught.value)) < 2 * len(str(tmp_path)) + 400


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b""), FOLDER),
        (lambda path: path.write_text("arch,cifar10_test"), FOLDER),
        (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)), FOLDER),
        (lambda path: path.write_bytes(GOOD), FOLDER),
        (lambda path: path.write_bytes(bz2.compress(GOOD)), FOLDER),
        (lambda path: torch.save(content(FEW), path), FOLDER),
        (os.mkfifo, FOLDER),
        (lambda path: None, "there is no benchmark file"),
    ],
)
def test_a_file_is_refused_and_the_folder_named(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    make(tmp_path / "source")
    with pytest.raises(UserError, match=problem):
        convert_table(tmp_path / "source", tmp_path / "table.csv")
    assert not (tmp_path / "table.csv").exists()


def test_a_bomb_is_named(tmp_path: Path, few: dict[int, Any]) -> None:
    folder = write_folder(tmp_path / "folder", few, FEW)
    (folder / "000001.pickle.pbz2").write_bytes(bz2.compress(b"\x80\x04" + b"]" * 20_000_000))
    with pytest.raises(UserError, match=r"000001.pickle.pbz2 unpacks to more than 8 MB"):
        convert_table(folder, tmp_path / "table.csv")


def test_a_folder_with_a_missing_cell_is_refused_before_it_is_read(tmp_path: Path, few: dict[int, Any]) -> None:
    folder = write_folder(tmp_path / "folder", few, FEW)
    (folder / "000000.pickle.pbz2").write_bytes(b"not read")
    (folder / "000002.pickle.pbz2").unlink()
    with pytest.raises(UserError, match=r"lacks 1 of 3 cells, the first of them 000002.pickle.pbz2"):
        convert_table(folder, tmp_path / "table.csv")


@pytest.mark.parametrize("out", ["folder", "source.pbz2", "source.pbz2/table.csv", "a\0b", "x" * 300, "~nobody-here"])
def test_a_table_that_cannot_be_written_is_said_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    source = pack(tmp_path / "source.pbz2", 5)
    before = source.read_bytes()
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(official_folder, "_read_cells", None)
    with pytest.raises(UserError, match="cannot be written"):
        convert_table(source, out if out.startswith("~") else tmp_path / out)
    assert source.read_bytes() == before


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_converts_and_says_what_it_wrote(
    tmp_path: Path, few: dict[int, Any], archgrad: Callable[..., tuple[int, str, str]]
) -> None:
    source = write_folder(tmp_path / "folder", few, FEW)
    code, out, _ = archgrad("convert", str(source), "-o", str(tmp_path / "table.csv"))
    assert code == 0
    assert "cifar10_test          3 cells" in out
    code, _, err = archgrad("convert", str(tmp_path / "table.csv"), "-o", str(tmp_path / "other.csv"))
    assert code == 2
    assert FOLDER in " ".join(err.split())


@pytest.mark.parametrize("name", ["new.pth", "old.pth", "single.pickle.pbz2", "folder"])
def test_a_query_of_an_official_file_names_the_folder_to_convert(
    tmp_path: Path, few: dict[int, Any], name: str, archgrad: Callable[..., tuple[int, str, str]]
) -> None:
    source = tmp_path / name
    if name == "folder":
        write_folder(source, few, FEW)
    elif source.suffix == ".pth":
        torch.save(content(FEW), source, _use_new_zipfile_serialization=name == "new.pth")
    else:
        pack(source, content(FEW))
    code, _, err = archgrad("query", NAMES[0], "--table", str(source))
    assert code == 2
    assert "once with: archgrad convert" in " ".join(err.split())
    code, _, err = archgrad("query", "--best", "--table", str(source))
    assert code == 2
    assert "archgrad convert" in " ".join(err.split())
