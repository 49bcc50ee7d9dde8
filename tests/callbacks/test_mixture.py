"""The probabilities of every epoch in ``mixture.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny_space import Tiny

import archgrad as ag
from archgrad.callbacks import Callback, SearchView
from archgrad.callbacks.mixture import MIXTURE


def search(folder: Path, *callbacks: Callback, **more: Any) -> ag.SearchResult:
    how: dict[str, Any] = {"epochs": 3, "batch_size": 10, "held_out": 0, "seed": 1, **more}
    return ag.search(
        Tiny(channels=2, cells_per_stage=1), "gaea", ag.data.digits(limit=40), out=folder, callbacks=callbacks, **how
    )


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / MIXTURE).read_text())
    return found


def test_it_has_every_choice_of_every_edge_in_every_epoch(tmp_path: Path) -> None:
    result = search(tmp_path)
    found = content(tmp_path)
    assert found["choices"][:4] == [["cell", "1<-0", name] for name in ("skip_connect", "conv", "pool")] + [
        ["cell", "2<-0", "skip_connect"]
    ]
    assert [len(epoch) for epoch in found["epochs"]] == [9, 9, 9]
    for epoch, record in zip(found["epochs"], result.history, strict=True):
        assert sum(epoch[1::3]) / 3 == pytest.approx(record["probability_conv"], abs=1e-4)


def test_a_resumed_search_writes_each_epoch_once(tmp_path: Path) -> None:
    class Fail(Callback):
        def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
            if search.epoch == 1 and search.step == 2:
                raise ZeroDivisionError

    search(tmp_path / "whole")
    with pytest.raises(ZeroDivisionError):
        search(tmp_path / "killed", Fail())
    left = content(tmp_path / "killed")
    left["epochs"].append([0.0] * 9)  # of a process that was killed before its checkpoint
    (tmp_path / "killed" / MIXTURE).write_text(json.dumps(left))
    search(tmp_path / "killed", resume=True)
    assert (tmp_path / "killed" / MIXTURE).read_text() == (tmp_path / "whole" / MIXTURE).read_text()


@pytest.mark.parametrize("damage", ["half a li", "[]", '{"choices": []}', '{"epochs": 3}'])
def test_a_damaged_file_stops_no_search(damage: str, tmp_path: Path) -> None:
    class Damage(Callback):
        def on_epoch_end(self, search: SearchView, record: Mapping[str, Any]) -> None:
            (tmp_path / MIXTURE).write_text(damage)

    assert search(tmp_path, Damage(), epochs=2).epochs == 2
