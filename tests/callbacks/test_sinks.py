"""Sinks write what the run directory holds, for other tools, once per epoch, also after a kill."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import archgrad as ag
from archgrad.callbacks import Callback, CSVFile, SearchView, Sink, TensorBoard, WandB, sinks
from archgrad.errors import UserError

DATA = ag.data.digits(limit=40)
SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)


class Killed(Callback):
    """Ends a search in its third epoch, as a kill would."""

    def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
        if search.epoch == 2:
            raise KeyboardInterrupt


def killed_and_resumed(sink: Sink, out: Path) -> list[dict[str, Any]]:
    """Search three epochs with a kill in the last; return the records."""
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 10, "out": out}
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, ag.recipes.gaea(), DATA, callbacks=[sink, Killed()], **settings)
    ag.search(SPACE, ag.recipes.gaea(), DATA, callbacks=[sink], resume=True, **settings)
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_csv_file_has_a_row_for_each_epoch(tmp_path: Path) -> None:
    records = killed_and_resumed(CSVFile(), tmp_path / "run")
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [float(row["train_loss"]) for row in rows] == [record["train_loss"] for record in records]
    assert set(rows[0]) == {name for record in records for name in record}


def test_tensorboard_shows_each_epoch_once(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    records = killed_and_resumed(TensorBoard(), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    shown = events.Scalars("train_loss")
    assert [event.step for event in shown] == [1, 2, 3]
    assert [event.value for event in shown] == pytest.approx([record["train_loss"] for record in records])
    assert "genotype/text_summary" in events.Tags()["tensors"]


def test_wandb_writes_an_offline_run(tmp_path: Path) -> None:
    import wandb

    killed_and_resumed(WandB(), tmp_path / "run")
    wandb.teardown()  # its service writes in the background until then
    first, second = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert all(b"train_loss" in path.read_bytes() for path in (first, second))


@pytest.mark.parametrize("sink", [CSVFile(), TensorBoard(), WandB()])
def test_a_sink_without_a_folder_is_refused(sink: Sink) -> None:
    with pytest.raises(UserError, match=rf"{type(sink).__name__} .*out=DIR"):
        ag.search(SPACE, ag.recipes.gaea(), DATA, epochs=1, batch_size=10, callbacks=[sink])


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"CSVFile .*/file/sub"):
        ag.search(SPACE, ag.recipes.gaea(), DATA, epochs=1, callbacks=[CSVFile(folder=str(tmp_path / "file" / "sub"))])


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(sinks, "import_module", missing)
    with pytest.raises(UserError, match=r"wandb .*pip install 'archgrad\[wandb\]'"):
        sinks.import_tool("wandb", "wandb")


def test_each_stage_has_a_sink_of_its_own(tmp_path: Path) -> None:
    plan = ag.Progressive(cells=(None, None), keep=(5, 3), skip_dropout=(0.0, 0.0))
    method = ag.Method(**{**vars(ag.recipes.darts()), "progressive": plan})
    ag.search(SPACE, method, DATA, epochs=1, batch_size=10, callbacks=[CSVFile()], out=tmp_path / "run")
    for stage in (1, 2):
        rows = (tmp_path / "run" / f"stage-{stage}" / "metrics.csv").read_text().splitlines()
        assert len(rows) == 2


def test_the_command_writes_for_tensorboard(archgrad: Any) -> None:
    tiny = ("--channels", 2, "--cells", 1, "--limit", 40, "--batch-size", 10, "--epochs", 1, "--threads", 1)
    archgrad.run("search", *tiny, "--tensorboard", "--callback", "csv", "--out", "run")
    assert list(Path("run/tensorboard").glob("events.*"))
    assert len(Path("run/metrics.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("out", ["run", None])
def test_each_stage_writes_into_a_folder_of_its_own(out: str | None, tmp_path: Path) -> None:
    sink = CSVFile(folder=str(tmp_path / "csv"))
    settings = {"progressive.cells": (None, None), "progressive.keep": (5, 3), "progressive.skip_dropout": 0.0}
    settings |= {"progressive.partial": (None,), "schedule.warmup_epochs": 0}
    search = {"epochs": 1, "batch_size": 10, "settings": settings, "out": out and tmp_path / out}
    ag.search(SPACE, "p-darts", DATA, callbacks=[sink], **search)
    for number in (1, 2):
        with (tmp_path / "csv" / f"stage-{number}" / "metrics.csv").open() as file:
            assert len(list(csv.DictReader(file))) == 1
