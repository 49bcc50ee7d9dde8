from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from records101 import CHAIN, PAIR, SKIP, record, write

from archgrad.errors import UserError
from archgrad.tables.nasbench101 import (
    DamagedIndex,
    build_index,
    cached_index,
    open_cells,
    open_index,
)
from archgrad.tables.nasbench101.index_builder import fingerprint_of
from archgrad.tables.nasbench101.index_cache import cache_folder


def test_the_cache_is_used_until_the_file_changes(source: Path) -> None:
    told: list[int] = []
    first = cached_index(source, lambda done, total: told.append(done))
    asked = len(told)
    assert asked
    assert cached_index(source.parent / "." / source.name, lambda done, total: told.append(done)) == first
    assert len(told) == asked
    write(source, record(CHAIN, 0.5))
    assert cached_index(source).cells == 1


def test_where_indices_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ARCHGRAD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "archgrad"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "archgrad"


def test_an_index_of_another_file_is_not_taken(source: Path, said: list[str]) -> None:
    path = cached_index(source).path
    build_index(write(source.parent / "other", record(CHAIN, 0.5)), path)
    assert cached_index(source).cells == 3
    assert said == [f"the index {path} of {source} is made again: it was made from another file."]


def test_a_change_of_the_content_is_noticed_though_size_and_time_are_the_same(source: Path, said: list[str]) -> None:
    before, status = cached_index(source), source.stat()
    content = source.read_bytes()
    source.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UserError, match="checksum of its data is wrong"):
        cached_index(source)
    assert before.path.exists()


def test_a_cache_that_others_can_write_is_told(source: Path, cache: Path, said: list[str]) -> None:
    cached_index(source)
    cache.chmod(0o755)
    cached_index(source)
    assert said == []
    cache.chmod(0o777)
    cached_index(source)
    assert said == [
        f"other users can write to the cache {cache}, and so change its accuracies; run chmod go-w on it, or set "
        "ARCHGRAD_CACHE to a folder of your own."
    ]


def test_large_files_are_told_apart_by_parts(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(20 << 20)
    zeros = fingerprint_of(path)
    for place in (0, 8 * (19 << 20) // 15, (20 << 20) - 1):
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        assert fingerprint_of(path) != zeros
        zeros = fingerprint_of(path)


@pytest.mark.parametrize("keep", [0, 50, 4096, -1])
def test_a_damaged_index_is_made_again_and_said_so(source: Path, keep: int, said: list[str]) -> None:
    path = cached_index(source).path
    path.write_bytes(path.read_bytes()[:keep])
    assert cached_index(source).cells == 3
    assert [f"the index {path} of {source} is made again: it" in message for message in said] == [True]
    assert open_index(path).cells == 3


def changed(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as index:
        index.execute(statement)
    index.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("PRAGMA application_id = 5", "the database of another program"),
        ("PRAGMA user_version = 99", "version 99 of the format, not 2"),
        ("DELETE FROM facts", "it was not finished"),
    ],
)
def test_what_is_no_index_is_refused(source: Path, statement: str, problem: str) -> None:
    path = cached_index(source).path
    changed(path, statement)
    with pytest.raises(DamagedIndex, match=problem):
        open_index(path)


def test_paths_without_an_index_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        open_index(tmp_path)
    with pytest.raises(UserError, match=r"cannot be read .No such file"):
        open_index(tmp_path / "absent.sqlite")
    with pytest.raises(UserError, match="does not exist; give the path of a TFRecord"):
        cached_index(tmp_path / "absent.tfrecord")
    with pytest.raises(UserError, match="cannot be read"):
        cached_index(tmp_path / "a\0b")


def test_an_index_can_be_asked_in_a_folder_with_any_name(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "has space & 100%?#"
    folder.mkdir()
    build_index(source, folder / "a.sqlite")
    assert open_index(folder / "a.sqlite").cells == 3


# --- indices from elsewhere -----------------------------------------------------------------------------------------


def ask_everything(path: Path) -> None:
    """Ask an index for whatever a table asks it."""
    table = open_cells(path)
    for epochs in table.epochs:
        for measure in ("valid", "test"):
            table.rank(table.best(measure, epochs).module, measure, epochs)
    for module in (CHAIN, PAIR, SKIP):
        table.find(module)


@pytest.fixture
def strangers(source: Path, tmp_path: Path) -> Path:
    """An index that somebody else has made, or says so."""
    build_index(source, tmp_path / "strangers.sqlite")
    return tmp_path / "strangers.sqlite"


NOT_A_NUMBER = f"UPDATE runs SET packed = x'66{'0000c07f' * 10}'"  # noqa: S608


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE facts SET value = 'x' WHERE name = 'cells'", "its facts are not a path, a fingerprint and"),
        ("UPDATE facts SET value = 0 WHERE name = 'records'", "its facts are not a path, a fingerprint and"),
        ("UPDATE facts SET value = x'ff' WHERE name = 'source'", "its facts are not a path"),
        ("DELETE FROM budgets", "not trained for 1 to 1000 numbers of epochs"),
        ("UPDATE budgets SET cells = 'x'", "not trained for 1 to 1000 numbers of epochs"),
        ("INSERT INTO budgets VALUES (-1, 3)", "not trained for 1 to 1000 numbers of epochs"),
        (
            "WITH RECURSIVE n(i) AS (SELECT 200 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
            "INSERT INTO budgets SELECT i, 1 FROM n",
            "not trained for 1 to 1000 numbers of epochs",
        ),
        ("INSERT INTO budgets VALUES (200, 3)", "lists cells trained for 200 epochs, but has none"),
        ("UPDATE results SET cell = cell + 100", "lists cells trained for 36 epochs, but has none"),
        ("UPDATE runs SET packed = x'66'", "the runs of a cell take 1 bytes"),
        ("UPDATE runs SET packed = x'6600'", "the runs of a cell take 2 bytes"),
        ("UPDATE runs SET packed = x''", "the runs of a cell cannot be read"),
        ("UPDATE runs SET packed = x'7300'", "the runs of a cell cannot be read"),
        ("UPDATE runs SET packed = 'abc'", "the runs of a cell cannot be read"),
        (NOT_A_NUMBER, "the runs of a cell contain invalid numbers"),
        ("UPDATE cells SET operations = 'input,zz,output'", "of a cell, its cell cannot be"),
        ("UPDATE cells SET operations = x'33'", "its operations are b'3', not text"),
        ("UPDATE cells SET matrix = -1", "its matrix is '-1', not the digits"),
        ("UPDATE cells SET matrix = x'ff'", "its matrix is b"),
        ("UPDATE cells SET matrix = 'x'", "its matrix is 'x', not the digits"),
        ("UPDATE cells SET matrix = replace(matrix, '1', '0')", "no path leads from the input to the output"),
        ("UPDATE cells SET operations = replace(operations, 'conv3x3', 'conv1x1')", "a cell has another hash than"),
        ("UPDATE cells SET parameters = 'many'", "a cell has an invalid hash, number or size"),
        ("UPDATE cells SET hash = 'x' || id", "a cell has an invalid hash, number or size"),
        ("DROP TABLE facts", "its tables are not those of an index"),
        ("CREATE TABLE more (x)", "its tables are not those of an index"),
        ("CREATE INDEX quick ON cells (id)", "its tables are not those of an index"),
        (
            "CREATE TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM cells; END",
            "its tables are not those of an index",
        ),
        ("ALTER TABLE facts ADD COLUMN x AS (abs(1)) VIRTUAL", "its tables are not those of an index"),
    ],
)
def test_a_strangers_index_is_refused_with_a_sentence(strangers: Path, statement: str, problem: str) -> None:
    changed(strangers, statement)
    with pytest.raises(DamagedIndex, match=rf"{problem}.*\. Give the path of an index, or of a TFRecord file"):
        ask_everything(strangers)


def test_whole_indices_answer_everything(strangers: Path) -> None:
    ask_everything(strangers)


def test_a_view_without_end_is_not_read(strangers: Path) -> None:
    changed(strangers, "DROP TABLE budgets")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS epochs, 1 AS cells FROM n"
    changed(strangers, f"CREATE VIEW budgets AS {endless}")
    with pytest.raises(DamagedIndex, match="its tables are not those of an index"):
        open_index(strangers)


def test_devices_are_no_indices() -> None:
    with pytest.raises(UserError, match="is no regular file; give the path"):
        open_index(Path("/dev/zero"))


def test_a_cache_folder_that_cannot_be(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setenv("ARCHGRAD_CACHE", "~nouser/x")
    with pytest.raises(UserError, match="is '~nouser/x', whose home folder is unknown; set ARCHGRAD_CACHE to"):
        cached_index(source)
    monkeypatch.delenv("ARCHGRAD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UserError, match="is not set, and the user's home folder is unknown; set ARCHGRAD_CACHE to"):
        cached_index(source)
