"""Results that are saved as run directories and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
from same_bits import same_bits

import archgrad as ag
from archgrad.config import read_run_config

SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
DATA = ag.data.digits(limit=60)


def files_of(folder: Path) -> dict[str, bytes]:
    names = ("config.toml", "metrics.jsonl", "genotype.json", "summary.json")
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.name in names}


def same(one: ag.SearchResult, other: ag.SearchResult) -> bool:
    rest = [(found.history, found.seconds, found.diagnosis) for found in (one, other)]
    return same_bits(one, other) and rest[0] == rest[1]


def test_a_saved_result_is_a_run_directory(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 1, "batch_size": 20, "channels": 2, "cells": 1, "limit": 60}
    written = ag.search("nasbench201", "gaea", "digits", out=tmp_path / "written", **options)
    saved = written.save(tmp_path / "saved")
    assert files_of(saved) == files_of(tmp_path / "written")
    loaded = ag.SearchResult.load(saved)
    assert same(loaded, written)
    assert same(ag.SearchResult.load(loaded.save(tmp_path / "again")), written)
    assert same(ag.resume(saved), written)
    assert read_run_config(saved).epochs == 1


def test_loading_changes_nothing(tmp_path: Path) -> None:
    ag.search(SPACE, "gaea", DATA, epochs=1, batch_size=20, out=tmp_path / "run")
    before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in (tmp_path / "run").iterdir()}
    (tmp_path / "run").chmod(0o500)
    try:
        ag.SearchResult.load(tmp_path / "run")
    finally:
        (tmp_path / "run").chmod(0o700)
    assert {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in (tmp_path / "run").iterdir()} == before


def test_all_stages_are_saved(tmp_path: Path) -> None:
    settings = {"schedule.warmup_epochs": 0, "progressive.cells": (3, 3, 3)}
    result = ag.search(
        "darts", "p-darts", DATA, epochs=1, batch_size=30, channels=2, settings=settings, standard_callbacks=False,
        out=tmp_path / "written",
    )  # fmt: skip
    result.save(tmp_path / "saved")
    assert files_of(tmp_path / "saved") == files_of(tmp_path / "written")
    loaded = ag.SearchResult.load(tmp_path / "saved")
    assert same(loaded, result)
    assert [record["stage"] for record in loaded.history] == [1, 2, 3]


def test_objects_without_a_name_are_given_again(tmp_path: Path) -> None:
    data = ag.data.ImageData("mine", DATA.images, DATA.labels, DATA.classes)
    result = ag.search(SPACE, "darts", data, epochs=1, batch_size=20, standard_callbacks=False)
    result.save(tmp_path / "run")
    with pytest.raises(ag.UserError, match="searched with data that cannot be named"):
        ag.SearchResult.load(tmp_path / "run")
    assert same(ag.SearchResult.load(tmp_path / "run", data=data), result)


def test_any_dataset_is_given_again(tmp_path: Path) -> None:
    pair = torch.rand(60, 2, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
    result = ag.search(SPACE, "darts", pair, epochs=1, batch_size=20, standard_callbacks=False)
    result.save(tmp_path / "run")
    assert same(ag.SearchResult.load(tmp_path / "run", data=pair), result)
    normalized = result.normalization(pair[0])
    assert normalized.mean((0, 2, 3)).abs().max() < 0.1


def test_wrong_folders_are_explained(tmp_path: Path) -> None:
    result = ag.search(SPACE, "darts", DATA, epochs=2, batch_size=20, standard_callbacks=False)
    result.save(tmp_path / "run")
    with pytest.raises(ag.UserError, match="already holds a search"):
        result.save(tmp_path / "run")
    with pytest.raises(ag.UserError, match="is not a run directory"):
        ag.SearchResult.load(tmp_path)
    for wrong in (None, 3, "a\0b"):
        with pytest.raises(ag.UserError, match=r"folder is .*; it must be the path of a folder"):
            result.save(wrong)  # type: ignore[arg-type]
        with pytest.raises(ag.UserError, match=r"folder is .*; it must be the path of a folder"):
            ag.SearchResult.load(wrong)  # type: ignore[arg-type]


class Kill(ag.callbacks.Callback):
    """Ends the search after its first epoch, as a crash would."""

    def on_epoch_end(self, search: ag.callbacks.Search, record: ag.callbacks.Record) -> None:
        raise KeyboardInterrupt


def test_an_unfinished_search_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, "darts", DATA, epochs=2, batch_size=20, out=tmp_path / "run", callbacks=[Kill()])
    with pytest.raises(ag.UserError, match=r"is not finished; `archgrad resume .*` finishes it"):
        ag.SearchResult.load(tmp_path / "run")


def test_the_history_is_a_table(tmp_path: Path) -> None:
    result = ag.search(SPACE, "darts", DATA, epochs=2, batch_size=20)
    table = pandas.DataFrame(result.history)
    assert table["epoch"].tolist() == [1, 2]
    assert table["train_loss"].notna().all()
