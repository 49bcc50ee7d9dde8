from __future__ import annotations

import os
import random
import signal
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest
import torch
from records101 import CHAIN, PAIR, SKIP, TURNED, record, write

from archgrad.errors import UserError
from archgrad.spaces.nasbench101 import (
    CONV3X3,
    INPUT,
    OUTPUT,
    NASBench101Net,
)
from archgrad.tables.nasbench101 import (
    CellTable,
    DamagedIndex,
    build_index,
    cached_index,
    open_index,
    read_rows,
)
from archgrad.tables.nasbench101.index_cache import index_path

REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench101", "four-vertex.tfrecord")
needs_real = pytest.mark.skipif(
    not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench101/four-vertex.tfrecord is not there"
)


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


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (record(PAIR, 0.1, parameters=8), "has 8 trainable parameters here and 7 elsewhere"),
        (record(CHAIN, 0.1, hash_=PAIR.hash), f"has the hash {PAIR.hash} here and {CHAIN.hash} by its matrix"),
        (record(CHAIN, 0.1, hash_="0" * 32), f"has the hash {'0' * 32} here and {CHAIN.hash} by its matrix"),
        (record(SKIP, 0.1).replace(b"0100", b"0110"), "its cell cannot be"),
        (record(SKIP, 0.1).replace(b"0100", b"0000"), "of its cell, no path"),
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


# --- too much, and twice --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alternating", [False, True])
def test_no_cell_has_more_than_a_hundred_runs(tmp_path: Path, alternating: bool) -> None:
    """Neither the memory nor the time of a build may grow with the number of runs that a file claims."""
    runs = [record(module, 0.5) for module in ((CHAIN, SKIP) if alternating else (CHAIN,))]
    path = write(tmp_path / "long", *runs * 150)
    offset = 100 * sum(len(data) + 16 for data in runs)
    with pytest.raises(UserError, match=f"byte {offset}: it is run 101 of its cell with 108 epochs.*made three"):
        build_index(path, tmp_path / "a.sqlite")
    build_index(write(path, *runs * 100), tmp_path / "a.sqlite")
    assert open_index(tmp_path / "a.sqlite").records == 100 * len(runs)


def test_no_index_has_more_numbers_of_epochs_than_can_be_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "many", *(record(SKIP, 0.5, epochs=epochs) for epochs in range(1, 1002)))
    with pytest.raises(UserError, match="have 1001 different numbers of epochs, and an index holds at most 1000"):
        build_index(path, tmp_path / "a.sqlite")
    assert [entry.name for entry in tmp_path.iterdir()] == ["many"]


def test_runs_that_are_there_twice_are_counted_and_told(tmp_path: Path, said: list[str]) -> None:
    once = [record(CHAIN, 0.5), record(SKIP, 0.5), record(SKIP, 0.75), record(CHAIN, 0.5, epochs=36)]
    build_index(write(tmp_path / "once", *once), tmp_path / "a.sqlite")
    assert said == []
    path = write(tmp_path / "twice", *once, once[0], once[2], once[2])
    build_index(path, tmp_path / "a.sqlite")
    assert said == [f"3 runs in {path} repeat another one and are counted again."]
    assert open_index(tmp_path / "a.sqlite").records == 7


def test_what_killed_builds_left_is_swept(source: Path, cache: Path) -> None:
    child = forked(lambda: cached_index(source, lambda done, total: os.kill(os.getpid(), signal.SIGKILL)))
    os.waitpid(child, 0)
    (old,) = cache.iterdir()
    fresh = cache / f".nasbench101-{'0' * 28}.{'1' * 16}.part"
    others = [cache / ".other.0123456789abcdef.part", cache / "nasbench101-0.part", fresh]
    for path in others:
        path.touch()
    for path in (old, *others[:2]):
        os.utime(path, (0, 0))
    kept = cached_index(source).path
    assert set(cache.iterdir()) == {kept, *others}


def test_the_index_names_its_file_wherever_it_is_asked_from(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent)
    assert cached_index(Path(source.name)).source == str(source)


def test_names_that_are_not_utf_8(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.fsdecode(os.fsencode(source.parent) + b"/\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    monkeypatch.setenv("ARCHGRAD_CACHE", str(folder))
    moved = source.rename(folder / os.fsdecode(b"\xfe.tfrecord"))
    index = cached_index(moved)
    assert index.source == f"{source.parent}/\ufffd/\ufffd.tfrecord"
    assert index.cell(PAIR.hash) is not None
