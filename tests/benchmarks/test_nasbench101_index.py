from __future__ import annotations

import base64
import json
import logging
import os
import random
import signal
import sqlite3
import struct
import warnings
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev

import google_crc32c
import pytest
import torch

from archgrad.benchmarks import cell_oracle
from archgrad.benchmarks.nasbench101 import (
    PUBLISHED_OPTIMA,
    CellTable,
    DamagedIndex,
    build_index,
    cached_index,
    find_cells,
    open_cells,
    open_index,
    read_rows,
    spaces_with,
)
from archgrad.benchmarks.nasbench101.cache import cache_folder, index_path
from archgrad.benchmarks.nasbench101.packing import pack_module, unpack_module
from archgrad.benchmarks.nasbench101.tfrecord import masked
from archgrad.diagnostics import Snapshot
from archgrad.errors import UserError
from archgrad.notices import forget
from archgrad.spaces import nasbench1shot1
from archgrad.spaces.nasbench101 import (
    CONV1X1,
    CONV3X3,
    INPUT,
    MAXPOOL3X3,
    OUTPUT,
    Module,
    NASBench101Net,
    genotypes,
    hashed_modules,
    module_of,
)

REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench101", "four-vertex.tfrecord")
needs_real = pytest.mark.skipif(
    not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench101/four-vertex.tfrecord is not there"
)

CHAIN = Module(((0, 1, 0), (0, 0, 1), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
SKIP = Module(((0, 1), (0, 0)), (INPUT, OUTPUT))
PAIR = Module(((0, 1, 1, 0), (0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 0, 0)), (INPUT, CONV1X1, MAXPOOL3X3, OUTPUT))
TURNED = Module(PAIR.matrix, (INPUT, MAXPOOL3X3, CONV1X1, OUTPUT))
"""The same cell as PAIR, drawn in another way."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARCHGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def record(
    module: Module, test: float, valid: float = 0.5, epochs: int = 108, parameters: int = 7, hash_: str | None = None
) -> bytes:
    """A run that ends with these accuracies; halfway it has half of them."""

    def snapshot(epoch: float, share: float) -> bytes:
        values = enumerate((epoch, 10 * epoch, 0.9 * share, valid * share, test * share), start=1)
        packed = b"".join(bytes([number << 3 | 1]) + struct.pack("<d", value) for number, value in values)
        return bytes([10, len(packed)]) + packed

    metrics = snapshot(0, 0.1) + snapshot(epochs / 2, 0.5) + snapshot(epochs, 1) + bytes([16, parameters])
    matrix = "".join(str(entry) for row in module.matrix for entry in row)
    text = base64.encodebytes(metrics).decode()
    return json.dumps([hash_ or module.hash, epochs, matrix, ",".join(module.operations), text]).encode()


def write(path: Path, *records: bytes) -> Path:
    def check(data: bytes) -> bytes:
        return struct.pack("<I", masked(google_crc32c.value(data)))

    def framed(data: bytes) -> bytes:
        length = struct.pack("<Q", len(data))
        return length + check(length) + data + check(data)

    path.write_bytes(b"".join(map(framed, records)))
    return path


def small(path: Path) -> Path:
    """Three cells; PAIR has three runs, SKIP two, and CHAIN one, which alone was trained for 36 epochs too."""
    return write(
        path,
        record(CHAIN, 0.9, 0.8),
        record(PAIR, 0.7, 0.95),
        record(PAIR, 0.75, 0.9),
        record(SKIP, 0.25, 0.25),
        record(SKIP, 0.5, 0.75),
        record(CHAIN, 0.5, epochs=36),
        record(TURNED, 0.8, 0.85),
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return small(tmp_path / "small.tfrecord")


# --- building -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_index_says_what_a_straight_reading_says(tmp_path: Path, seed: int) -> None:
    """Also of rows in any order, and of numbers that need all digits of a double or not."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    records = [
        record(module, round(draw.random(), 3) if seed else draw.randrange(64) / 64, draw.random(), epochs)
        for module in (CHAIN, SKIP, PAIR, TURNED)
        for epochs in (4, 108)
        for _ in range(3)
    ]
    draw.shuffle(records)
    path = write(tmp_path / "a", *records)
    build_index(path, tmp_path / "a.sqlite")
    index = open_index(tmp_path / "a.sqlite")
    straight = defaultdict(list)
    for row in read_rows(path):
        straight[row.hash, row.epochs].append((row.metrics.midway, row.metrics.end))
    assert (index.cells, index.records, index.epochs, index.source) == (3, 24, (4, 108), str(path))
    for (hash_, epochs), runs in straight.items():
        cell = index.cell(hash_)
        assert cell is not None
        assert cell.module.hash == hash_
        assert cell.parameters == 7
        assert list(index.runs(cell, epochs)) == runs
    assert index.cell("0" * 32) is None


@needs_real
def test_the_index_of_the_real_file(tmp_path: Path) -> None:
    build_index(REAL, tmp_path / "real.sqlite")
    index = open_index(tmp_path / "real.sqlite")
    assert (index.cells, index.records, index.epochs) == (91, 1092, (4, 12, 36, 108))
    ends = defaultdict(list)
    for row in read_rows(REAL):
        ends[row.hash, row.epochs].append(row.metrics.end)
    for (hash_, epochs), expected in ends.items():
        cell = index.cell(hash_)
        assert cell is not None
        assert [run.end for run in index.runs(cell, epochs)] == expected
    table = CellTable(index)
    means = {hash_: fmean(end.test for end in own) for (hash_, epochs), own in ends.items() if epochs == 108}
    best = table.best()
    assert best.hash == max(means, key=means.__getitem__) == "ea9270f536a1f1094f446246dad4fe89"
    assert best.test == pytest.approx(93.3494, abs=1e-4)
    assert best.parameters == 21_220_234
    assert best.module.operations == (INPUT, CONV3X3, CONV3X3, OUTPUT)
    with torch.device("meta"):  # sizes that were counted by the code that trained the file
        for hash_ in list(means)[::4]:
            known = table.query(index.cell(hash_).module)  # type: ignore[union-attr]
            net = NASBench101Net(known.module)
            assert sum(weights.numel() for weights in net.parameters()) == known.parameters
    worst = table.index.cell(min(means, key=means.__getitem__))
    assert worst is not None
    assert table.rank(worst.module) == 91


SEVEN = Module(
    (
        (0, 1, 0, 0, 1, 1, 0),
        (0, 0, 1, 0, 0, 0, 0),
        (0, 0, 0, 1, 0, 0, 1),
        (0, 0, 0, 0, 0, 1, 0),
        (0, 0, 0, 0, 0, 1, 0),
        (0, 0, 0, 0, 0, 0, 1),
        (0, 0, 0, 0, 0, 0, 0),
    ),
    (INPUT, CONV3X3, MAXPOOL3X3, CONV3X3, CONV3X3, CONV1X1, OUTPUT),
)


@pytest.mark.parametrize("module", [CHAIN, SKIP, PAIR, TURNED, SEVEN])
def test_packed_modules_come_back(module: Module) -> None:
    assert unpack_module(*pack_module(module)) == module


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (record(PAIR, 0.1, parameters=8), "has 8 trainable parameters here and 7 elsewhere"),
        (record(CHAIN, 0.1, hash_=PAIR.hash), f"has the hash {PAIR.hash} here and {CHAIN.hash} by its matrix"),
        (record(CHAIN, 0.1, hash_="0" * 32), f"has the hash {'0' * 32} here and {CHAIN.hash} by its matrix"),
        (record(SKIP, 0.1).replace(b"0100", b"0110"), "its cell cannot be"),
        (record(SKIP, 0.1).replace(b"0100", b"0000"), "its cell cannot be .no path"),
        (record(SKIP, 0.1).replace(b"input,", b"inputs,"), "its cell cannot be .*'inputs'"),
        (record(SKIP, 0.1).replace(b"input,output", b"input"), "its cell cannot be"),
    ],
)
@pytest.mark.parametrize("between", [(), (record(SKIP, 0.125),)])
def test_rows_that_contradict_are_refused_with_their_offset(
    tmp_path: Path, bad: bytes, problem: str, between: tuple[bytes, ...]
) -> None:
    before = (record(PAIR, 0.7, 0.95), *between)
    path = write(tmp_path / "bad", *before, bad)
    offset = sum(len(data) + 16 for data in before)
    with pytest.raises(UserError, match=problem) as caught:
        build_index(path, tmp_path / "bad.sqlite")
    assert f"bad, record at byte {offset}: " in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad"]


def test_progress_is_told(source: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    build_index(source, tmp_path / "a.sqlite", lambda done, total: told.append((done, total)))
    size = source.stat().st_size
    assert told[-1] == (size, size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_interrupted_build_leaves_nothing(source: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(source, tmp_path / "a.sqlite", interrupt)
    assert [entry.name for entry in tmp_path.iterdir()] == [source.name]


def forked(action: Callable[[], object]) -> int:
    """Run something in a copy of this process; return the copy's number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are not copied, and nothing here needs them
        child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def test_a_killed_build_leaves_no_index(source: Path, cache: Path) -> None:
    child = forked(lambda: cached_index(source, lambda done, total: os.kill(os.getpid(), signal.SIGKILL)))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    left = list(cache.iterdir())
    assert [entry.suffix for entry in left] == [".part"]
    with pytest.raises(DamagedIndex):
        open_index(left[0])
    assert cached_index(source).cells == 3


def test_two_processes_may_build_at_once(source: Path, cache: Path) -> None:
    began, begins = os.pipe()
    may_go_on, goes_on = os.pipe()

    def pause(done: int, total: int) -> None:
        os.write(begins, b".")
        os.read(may_go_on, 1)

    child = forked(lambda: cached_index(source, pause))
    os.read(began, 1)
    assert not index_path(source).exists()
    first = cached_index(source)
    os.write(goes_on, b"...")
    assert os.waitpid(child, 0)[1] == 0
    assert [entry.name for entry in cache.iterdir()] == [index_path(source).name]
    assert cached_index(source) == first
    assert first.cell(PAIR.hash) is not None
    for end in (began, begins, may_go_on, goes_on):
        os.close(end)


def test_a_folder_that_may_not_be_written_is_told(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written .*set ARCHGRAD_CACHE to another folder"):
        build_index(source, tmp_path / "file" / "a.sqlite")


# --- opening ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("keep", [0, 50, 4096, -1])
def test_a_damaged_index_is_made_again_and_said_so(
    source: Path, keep: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("archgrad"), "propagate", True)
    path = cached_index(source).path
    path.write_bytes(path.read_bytes()[:keep])
    assert cached_index(source).cells == 3
    assert "is made again" in caplog.text
    assert open_index(path).cells == 3


def changed(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as index:
        index.execute(statement)
    index.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("PRAGMA application_id = 5", "the database of another program"),
        ("PRAGMA user_version = 99", "version 99 of the format, not 1"),
        ("DELETE FROM facts", "it was not finished"),
        ("DROP TABLE facts", "SQLite says: no such table: facts"),
    ],
)
def test_what_is_no_index_is_refused(source: Path, statement: str, problem: str) -> None:
    path = cached_index(source).path
    changed(path, statement)
    with pytest.raises(DamagedIndex, match=rf"{problem}.*Delete it, and name the TFRecord file"):
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


def test_an_index_can_be_asked_where_nothing_may_be_written(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "has space & 100%?#"
    folder.mkdir()
    build_index(source, folder / "a.sqlite")
    index = open_index(folder / "a.sqlite")
    index.remember("x", [1.5])
    assert index.remembered("x") == [1.5]
    assert index.remembered("y") is None


# --- the table ----------------------------------------------------------------------------------------------------


def test_a_table_answers(source: Path) -> None:
    table = open_cells(source)
    assert len(table) == 3
    assert table.epochs == (36, 108)
    found = table.query(TURNED)
    assert found == table.find(PAIR)
    assert found.accuracies("test") == pytest.approx((70, 75, 80))
    assert (found.test, found.valid, found.train) == pytest.approx((75, 90, 90))
    assert found.spread("test") == pytest.approx(stdev([70, 75, 80]))
    assert (found.seconds, found.parameters, found.hash, found.module) == (1080, 7, PAIR.hash, PAIR)
    assert [run.midway.test for run in found.runs] == pytest.approx([0.35, 0.375, 0.4])
    assert table.query(CHAIN).spread("valid") == 0
    assert table.query(CHAIN, 36).test == pytest.approx(50)
    assert table.find(PAIR, 36) is None
    assert (table.best().hash, table.best("valid").hash) == (CHAIN.hash, PAIR.hash)
    assert [table.rank(module) for module in (CHAIN, PAIR, SKIP)] == [1, 2, 3]
    assert [table.rank(module, "valid") for module in (CHAIN, PAIR, SKIP)] == [2, 1, 3]


def test_equal_cells_share_the_better_rank(tmp_path: Path) -> None:
    table = open_cells(write(tmp_path / "a", *(record(module, 0.5) for module in (SKIP, CHAIN, PAIR))))
    assert [table.rank(module) for module in (CHAIN, PAIR, SKIP)] == [1, 1, 1]
    assert table.best().hash == SKIP.hash


def test_questions_without_an_answer(source: Path) -> None:
    table = open_cells(source)
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


def test_the_optimum_is_that_of_single_runs(source: Path) -> None:
    table = open_cells(source)
    optimum = table.optimum([PAIR.hash, SKIP.hash])
    assert optimum is not None
    assert (optimum.test_error, optimum.valid_error) == pytest.approx((20, 5))
    assert optimum.regret(table.query(PAIR)) == pytest.approx({"test": 5, "valid": 5})
    assert table.optimum([PAIR.hash, "0" * 32]) is None
    assert table.optimum([PAIR.hash], 36) is None


def test_the_published_optima() -> None:
    assert {number: (found.test_error, found.valid_error) for number, found in PUBLISHED_OPTIMA.items()} == {
        1: (5.449, 4.928),
        2: (100 * 0.057592153549194336, 100 * 0.051582515239715576),
        3: (100 * 0.05338543653488159, 100 * 0.04847759008407593),
    }


def test_an_incomplete_table_falls_back_on_the_published_optimum(source: Path) -> None:
    table = open_cells(source)
    assert table.space_optimum(1) is PUBLISHED_OPTIMA[1]
    assert table.space_optimum(1) is PUBLISHED_OPTIMA[1]  # as the index remembers


@pytest.fixture(scope="module")
def space_1(tmp_path_factory: pytest.TempPathFactory) -> CellTable:
    """Every cell of space 1, with test accuracies that grow from 0.25 in steps of 2⁻¹³."""
    modules = [module for _, module in hashed_modules(nasbench1shot1(1))]
    records = (record(module, 0.25 + place / 2**13, place / 2**13) for place, module in enumerate(modules))
    folder = tmp_path_factory.mktemp("space")
    (folder / "nasbench101").mkdir()
    path = write(folder / "nasbench101" / "nasbench_only108.tfrecord", *records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARCHGRAD_CACHE", str(folder))
        return open_cells(path)


def test_a_complete_table_finds_its_own_optimum(space_1: CellTable) -> None:
    optimum = space_1.space_optimum(1)
    assert optimum.source == space_1.source
    assert optimum.test_error == pytest.approx(75 - 100 * (len(space_1) - 1) / 2**13)
    assert optimum.valid_error == pytest.approx(100 - 100 * (len(space_1) - 1) / 2**13)
    assert space_1.space_optimum(1) == optimum == open_cells(space_1.index.path).space_optimum(1)
    assert optimum.regret(space_1.best())["test"] == pytest.approx(0)
    for genotype in islice(genotypes(nasbench1shot1(1)), 0, None, 5003):
        found = space_1.query(genotype)
        assert found.module.hash == found.hash == module_of(genotype).hash
        assert optimum.regret(found)["valid"] >= 0
        assert spaces_with(genotype) == (1,)
        assert 1 in spaces_with(found.module)


def test_modules_outside_of_all_spaces() -> None:
    assert spaces_with(SKIP) == ()


# --- finding ------------------------------------------------------------------------------------------------------


def test_tables_are_found_where_they_should_be(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forget()
    monkeypatch.setattr(logging.getLogger("archgrad"), "propagate", True)
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    assert find_cells() is None
    with pytest.raises(UserError, match=r"--table FILE.*nasbench_full.tfrecord or .*nasbench_only108.tfrecord"):
        open_cells()
    folder = tmp_path / "nasbench101"
    folder.mkdir()
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    small(folder / "four-vertex.tfrecord")
    assert find_cells() is None
    for name in ("nasbench_only108.tfrecord", "nasbench_full.tfrecord"):
        small(folder / name)
        found = find_cells()
        assert found is not None
        assert found.source == str(folder / name)
    assert "has 3 cells, but was published with 423624; fetch it again" in caplog.text
    build_index(source, tmp_path / "own.sqlite")
    named = find_cells(tmp_path / "own.sqlite")
    assert named is not None
    assert named.source == str(source)
    (tmp_path / "bad.sqlite").write_text("nothing")
    with pytest.raises(DamagedIndex, match="no SQLite database"):
        find_cells(tmp_path / "bad.sqlite")


# --- the oracle ---------------------------------------------------------------------------------------------------


def test_the_oracle_logs_accuracy_and_regret(space_1: CellTable) -> None:
    table, space = space_1, nasbench1shot1(1)
    genotype = next(genotypes(space))
    measured = cell_oracle(table, 1)(Snapshot(space, {}, genotype))
    found, optimum = table.query(genotype), table.space_optimum(1)
    assert measured == pytest.approx(
        {
            "oracle_cifar10": found.test,
            "oracle_cifar10_valid": found.valid,
            "regret": 100 - found.test - optimum.test_error,
            "regret_valid": 100 - found.valid - optimum.valid_error,
        },
        abs=1e-4,
    )


def test_the_oracle_is_silent_on_cells_it_does_not_know(
    source: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    monkeypatch.setattr(logging.getLogger("archgrad"), "propagate", True)
    space = nasbench1shot1(1)
    look_up = cell_oracle(open_cells(source), 1)
    snapshot = Snapshot(space, {}, next(genotypes(space)))
    assert look_up(snapshot) == look_up(snapshot) == {}
    assert caplog.text.count("lacks cells that this search comes across") == 1


def test_a_search_logs_its_oracle_and_regret(
    archgrad: Callable[..., tuple[int, str, str]], space_1: CellTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    monkeypatch.setenv("ARCHGRAD_CACHE", str(space_1.index.path.parent))
    monkeypatch.setenv("ARCHGRAD_DATA", str(space_1.index.path.parent))
    small = ("--channels", 2, "--cells", 3, "--limit", 40, "--batch-size", 10, "--epochs", 1)
    code, out, err = archgrad("search", "--space", "nasbench1shot1-1", *small, "--out", "run")
    assert code == 0, err
    assert "has 2685 cells, but was published with 423624" in err
    lowest = space_1.space_optimum(1).test_error
    assert f"mean error minus {lowest:.3f} % (" in out
    assert "the lowest of any run in the space (of that file)" in out
    (line,) = Path("run/metrics.jsonl").read_text().splitlines()
    epoch = json.loads(line)
    assert epoch["oracle_cifar10"] == pytest.approx(epoch["oracle_cifar10_valid"] + 25)
    assert epoch["regret"] == pytest.approx(100 - epoch["oracle_cifar10"] - lowest, abs=1e-3)
    assert epoch["regret"] == pytest.approx(epoch["regret_valid"], abs=1e-3)


def test_an_oracle_needs_the_usual_training(tmp_path: Path) -> None:
    table = open_cells(write(tmp_path / "a", record(SKIP, 0.5, epochs=4)))
    with pytest.raises(UserError, match="no cells trained for 108 epochs; choose from: 4"):
        cell_oracle(table, 1)
