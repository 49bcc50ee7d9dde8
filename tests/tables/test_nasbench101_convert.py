from __future__ import annotations

import io
import random
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from records101 import CHAIN, PAIR, REAL, SKIP, TURNED, converted, needs_real, record, small, write

from archgrad.errors import DiskError, UserError
from archgrad.spaces.nasbench101 import CONV3X3, INPUT, OUTPUT, Module, NASBench101Net
from archgrad.tables import convert_table, open_cells
from archgrad.tables.nasbench101.official_file import TrainingRun, module_from, read_runs


def straight(path: Path) -> tuple[dict[tuple[str, int], list[TrainingRun]], dict[str, Module]]:
    """The runs by cell and epochs, and the cells by hash, from the TFRecord file itself."""
    runs, modules = defaultdict(list), {}
    for _, run in read_runs(path):
        runs[run.hash.hex(), run.epochs].append(run)
        modules.setdefault(run.hash.hex(), module_from(run.matrix, run.operations))
    return runs, modules


@pytest.mark.parametrize("seed", range(3))
def test_the_table_says_what_a_straight_reading_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Also of rows in any order, of a cell's rows far apart, and of numbers that need all digits of a double or not."""
    monkeypatch.setattr("archgrad.tables.nasbench101.parquet_file._ROWS_AT_ONCE", 5)
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    records = [
        record(module, round(draw.random(), 3) if seed else draw.randrange(64) / 64, draw.random(), epochs)
        for module in (CHAIN, SKIP, PAIR, TURNED)
        for epochs in (4, 108)
        for _ in range(3)
    ]
    draw.shuffle(records)
    path = write(tmp_path / "a.tfrecord", *records)
    table = open_cells(converted(path))
    assert (len(table), table.trained, table.epochs) == (3, {4: 3, 108: 3}, (4, 108))
    runs, modules = straight(path)
    for (hash_, epochs), own in runs.items():
        found = table.query(modules[hash_], epochs)
        assert (found.hash, found.module.hash, found.parameters) == (hash_, hash_, 7)
        assert list(found.runs) == own
    for measure in ("valid", "test"):
        means = {
            hash_: fmean(getattr(run, measure) for run in own) for (hash_, epochs), own in runs.items() if epochs == 4
        }
        ranked = sorted(means, key=means.__getitem__, reverse=True)
        assert [table.rank(modules[hash_], measure, 4) for hash_ in ranked] == [1, 2, 3]
        assert table.best(measure, 4).hash == ranked[0]


@needs_real
def test_the_table_of_the_real_file(tmp_path: Path) -> None:
    counts = convert_table(REAL, tmp_path / "real.parquet")
    assert counts == {"4 epochs": 91, "12 epochs": 91, "36 epochs": 91, "108 epochs": 91}
    table = open_cells(tmp_path / "real.parquet")
    runs, modules = straight(REAL)
    for (hash_, epochs), own in runs.items():
        assert list(table.query(modules[hash_], epochs).runs) == own
    means = {hash_: fmean(run.test for run in own) for (hash_, epochs), own in runs.items() if epochs == 108}
    best = table.best()
    assert best.hash == max(means, key=means.__getitem__) == "ea9270f536a1f1094f446246dad4fe89"
    assert best.test == pytest.approx(93.3494, abs=1e-4)
    assert best.parameters == 21_220_234
    assert best.module.operations == (INPUT, CONV3X3, CONV3X3, OUTPUT)
    with torch.device("meta"):  # sizes that were counted by the code that trained the file
        for hash_ in list(means)[::4]:
            net = NASBench101Net(modules[hash_])
            assert sum(weights.numel() for weights in net.parameters()) == table.query(modules[hash_]).parameters
    assert table.rank(modules[min(means, key=means.__getitem__)]) == 91


def test_progress_is_told(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.tables.nasbench101.parquet_file._ROWS_AT_ONCE", 2)
    told: list[tuple[int, int]] = []
    convert_table(source, tmp_path / "a.parquet", lambda done, total: told.append((done, total)))
    size = source.stat().st_size
    assert told[-1] == (size, size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_interrupted_conversion_leaves_what_was_there(source: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a.parquet").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        convert_table(source, tmp_path / "a.parquet", interrupt)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.parquet", source.name]
    assert (tmp_path / "a.parquet").read_text() == "mine"


@pytest.mark.parametrize("out", ["folder", "small.tfrecord", "small.tfrecord/a", "a\0b", "x" * 300, "~nobody-here"])
def test_a_table_that_cannot_be_written_is_said_before_reading(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    before = source.read_bytes()
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("archgrad.tables.nasbench101.parquet_file.read_runs", None)
    with pytest.raises(UserError, match="cannot be written"):
        convert_table(source, out if out.startswith("~") else tmp_path / out)
    assert source.read_bytes() == before


def test_a_disk_that_fails_while_reading_is_not_called_one_that_cannot_be_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("archgrad.tables.nasbench101.official_file.open_regular", lambda *given: Failing())
    with pytest.raises(DiskError, match=rf"{source.name} cannot be read at byte 0 \(Input/output error\)"):
        convert_table(source, tmp_path / "out.parquet")


@pytest.mark.parametrize("name", ["nasbench_full.tfrecord", "nasbench_only108.tfrecord", "some.tfrecord"])
def test_a_published_file_that_lost_cells_is_told(tmp_path: Path, name: str, said: list[str]) -> None:
    """A cut between two records is seen in no checksum."""
    path, link = small(tmp_path / name), tmp_path / "link.tfrecord"
    link.symlink_to(path)
    for own in (path, link):
        converted(own)
    told = [f"{own} has 3 cells, but was published with 423624; fetch it again." for own in (path, link)]
    assert said == ([] if name == "some.tfrecord" else told)


def test_a_missing_library_is_named_with_its_remedy(
    source: Path, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    parquet.touch()
    for ask in (converted, open_cells):
        with pytest.raises(UserError, match=r'needs pyarrow.*pip install "archgrad\[nasbench101\]"'):
            ask(source if ask is converted else parquet)


def test_the_command_converts_and_says_what_it_wrote(archgrad: Any, source: Path) -> None:
    out = archgrad.run("convert", source)
    assert out == "nasbench101.parquet\n  36 epochs             1 cells\n  108 epochs            3 cells\n"
    assert len(open_cells("nasbench101.parquet")) == 3
