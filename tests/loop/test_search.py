from __future__ import annotations

import math
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from listening import EpochFinished, Event, listening
from same_bits import assert_same, same_bits
from spying import spied
from torch import Tensor
from varied_spaces import small_space

import archgrad as ag
from archgrad.callbacks import Callback
from archgrad.data import Loader, measure
from archgrad.diagnostics import Snapshot
from archgrad.errors import UserError
from archgrad.loop import SearchResult
from archgrad.operations import Operation, Site

FEW = ag.data.digits(limit=64)
SPACE = small_space("nasbench201")


@pytest.mark.parametrize("name", ["nasbench201", "darts", "s1", "nasbench1shot1-3"])
def test_a_space_of_every_kind_is_searched(name: str) -> None:
    """Rows of one length and of several, cells of two kinds, and operations on nodes."""
    space = small_space(name)
    result = ag.search(space, ag.recipes.darts(), FEW, epochs=3, seed=0, batch_size=32)
    space.check(result.genotype)
    assert result.genotype.count("none") == 0 or name == "nasbench201"
    assert [record["epoch"] for record in result.history] == [1, 2, 3]
    for record in result.history:
        assert record["train_loss"] > 0
        assert record["arch_loss"] > 0
        assert 0 <= record["train_accuracy"] <= 100
        assert 0 <= record["arch_accuracy"] <= 100
        widest = max(len(row.choices) for block in space.blocks for row in block.rows)
        assert 0 < record["entropy"] <= math.log(widest) + 1e-6
        assert record["skips"] == ag.Genotype.parse(record["genotype"]).count("skip_connect")
        assert record["seconds"] > 0
    assert result.history[-1]["genotype"] == str(result.genotype)
    for block in space.blocks:
        mixture = result.mixture[block.name]
        assert mixture.shape == (block.cells, *block.shape)
        assert not mixture.requires_grad
        torch.testing.assert_close(mixture.sum(-1), torch.ones(block.cells, len(block.rows)))
        assert (mixture[:, ~block.mask] == 0).all()
    assert result.seconds == pytest.approx(sum(record["seconds"] for record in result.history), abs=0.01)


def test_it_learns() -> None:
    training = ag.WeightTraining(lr=0.1, nesterov=True, batch_size=16, epochs=4)
    result = ag.search(SPACE, ag.recipes.darts(), ag.data.digits(limit=300), weights=training)
    assert result.history[-1]["train_loss"] < 0.9 * result.history[0]["train_loss"]
    assert result.history[-1]["arch_accuracy"] > 20


@pytest.mark.parametrize("name", ["nasbench201", "s4"])
def test_the_same_seed_gives_the_same_bits_whatever_the_caller_drew(name: str) -> None:
    settings = {"epochs": 2, "batch_size": 16}
    torch.manual_seed(1)
    first = ag.search(small_space(name), ag.recipes.darts(), FEW, seed=5, **settings)
    torch.manual_seed(2)
    torch.rand(7)
    np.random.default_rng(0).random()
    second = ag.search(small_space(name), ag.recipes.darts(), FEW, seed=5, **settings)
    assert_same(first, second)
    other = ag.search(small_space(name), ag.recipes.darts(), FEW, seed=6, **settings)
    assert not same_bits(first, other)


def test_the_caller_keeps_its_random_states() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1, batch_size=32)
    assert torch.equal(torch.get_rng_state(), before)

    def interfere(event: Event) -> None:
        torch.manual_seed(99)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1, batch_size=32, callbacks=listening(interfere))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_searches_where_the_caller_records_no_gradients(mode: type) -> None:
    plain = ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1, batch_size=32)
    with mode():
        quiet = ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1, batch_size=32)
    assert same_bits(plain, quiet)


class Dropout(Operation):
    """What a user may write: it draws from the global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


def test_operations_that_draw_globally_are_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dropout(site: Site) -> Operation:
        return Dropout()

    monkeypatch.setitem(sys.modules["archgrad.spaces.nasbench201"].OPERATIONS, "skip_connect", dropout)

    def draw(event: Event) -> None:
        torch.rand(3)

    def fail(event: Event) -> None:
        if isinstance(event, EpochFinished):
            raise RuntimeError("killed")

    settings = {"epochs": 2, "batch_size": 16}
    whole = ag.search(SPACE, ag.recipes.darts(), FEW, **settings)
    assert same_bits(whole, ag.search(SPACE, ag.recipes.darts(), FEW, callbacks=listening(draw), **settings))
    with pytest.raises(RuntimeError, match="killed"):
        ag.search(SPACE, ag.recipes.darts(), FEW, out=tmp_path, callbacks=listening(draw, fail), **settings)
    assert same_bits(whole, ag.search(SPACE, ag.recipes.darts(), FEW, out=tmp_path, resume=True, **settings))


def test_it_searches_outside_the_main_thread(tmp_path: Path) -> None:
    found: list[SearchResult] = []

    def run() -> None:
        torch.set_num_threads(1)
        found.append(ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1, batch_size=32, out=tmp_path))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert same_bits(found[0], ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1, batch_size=32))


def drawn(monkeypatch: pytest.MonkeyPatch, **settings: object) -> dict[str, list[Loader]]:
    """Search one epoch and return the loaders by stream, once for every batch that was drawn."""
    loaders: dict[str, list[Loader]] = {"weights": [], "architecture": []}
    spied(monkeypatch, Loader, "batch", lambda self, index: loaders[self.stream].append(self))
    method = ag.recipes.darts(level="bilevel" if "split" in settings else "single")
    ag.search(SPACE, method, FEW, epochs=1, held_out=0, standard_callbacks=False, **settings)
    return loaders


def test_a_single_level_search_trains_both_on_all_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    loaders = drawn(monkeypatch, batch_size=16)
    weights, architecture = loaders["weights"][0], loaders["architecture"][0]
    assert len(loaders["weights"]) == len(loaders["architecture"]) == 4
    assert weights.indices.tolist() == architecture.indices.tolist() == list(range(64))
    assert weights.normalization == architecture.normalization == measure(FEW)
    assert not torch.equal(weights.batch(0).inputs, architecture.batch(0).inputs)


def test_fractions_divide_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    loaders = drawn(monkeypatch, split=(0.5, 0.25), batch_size=16)
    weights, architecture = loaders["weights"][0], loaders["architecture"][0]
    assert (len(weights.indices), len(architecture.indices)) == (32, 16)
    assert not set(weights.indices.tolist()) & set(architecture.indices.tolist())
    assert len(loaders["weights"]) == len(loaders["architecture"]) == 2
    assert weights.normalization == measure(FEW, weights.indices)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 0}, r"epochs is 0; it must be at least 1"),
        ({"batch_size": 0}, r"batch_size is 0; it must be at least 1"),
        ({"batch_size": 33}, r"batch_size is 33, but only 32 images train the weights; it must be at most 32"),
        ({"batch_size": 20, "split": (0.5, 0.25)}, r"only 16 images train the architecture; it must be at most 16"),
        ({"split": (0.9, 0.9), "epochs": 1}, r"takes 1.8 times the data"),
        ({"resume": True}, r"resume=True needs out="),
    ],
)
def test_impossible_wishes_are_sentences(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ag.search(SPACE, ag.recipes.darts(), FEW, **settings)


def test_the_published_batch_size_is_cut_to_small_data() -> None:
    result = ag.search(SPACE, ag.recipes.darts(), FEW, epochs=1)
    assert SPACE.weights.batch_size == 64 > len(FEW) / 2
    assert len(result.history) == 1


def test_training_settings_are_followed() -> None:
    training = ag.WeightTraining(lr=0.05, lr_min=0.01, batch_size=16, epochs=2)
    result = ag.search(SPACE, ag.recipes.darts(), FEW, weights=training)
    assert [record["lr"] for record in result.history] == pytest.approx([0.05, 0.03])


@dataclass(frozen=True)
class Odd(Callback):
    """A callback with values that JSON and a safe checkpoint do not know."""

    def measure_epoch(self, snapshot: Snapshot, search: object) -> dict[str, float]:
        return {
            "numpy": np.float64(0.5),
            "single": np.float32(0.25),
            "count": np.int64(3),
            "tensor": torch.tensor(2.0),  # type: ignore[dict-item]
            "nan": math.nan,
        }


def test_what_callbacks_measure_is_kept_as_plain_numbers(tmp_path: Path) -> None:
    settings = {"epochs": 2, "batch_size": 32, "out": tmp_path, "standard_callbacks": False, "callbacks": [Odd()]}
    result = ag.search(SPACE, ag.recipes.darts(), FEW, **settings)
    record = result.history[0]
    assert {name: record[name] for name in ("numpy", "single", "count", "tensor")} == {
        "numpy": 0.5, "single": 0.25, "count": 3.0, "tensor": 2.0,
    }  # fmt: skip
    assert all(type(record[name]) is float for name in ("numpy", "single", "count", "tensor", "nan"))
    assert "alignment" not in record
    assert '"nan": null' in (tmp_path / "metrics.jsonl").read_text()
    again = ag.search(SPACE, ag.recipes.darts(), FEW, resume=True, **settings)
    assert again.history[0]["numpy"] == 0.5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"out": 3}, "out is 3; it must be the path of a folder"),
        ({"out": "a\0b"}, "out is .*; it must be the path of a folder"),
        ({"callbacks": 3}, "callbacks is 3; it must be a list of callbacks"),
        ({"callbacks": [3]}, "3 is not a callback; give objects of classes"),
        ({"resume": "yes", "out": "run"}, "resume is 'yes'; it must be true or false"),
        ({"device": None, "epochs": 1}, "device is None; it must be text"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence):
        ag.search(ag.spaces.NASBench201(channels=2, cells_per_stage=1), "darts", ag.data.digits(limit=40), **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", [3, None, b"run", "a\0b"])
def test_a_wrong_folder_to_resume_is_named(folder: Any) -> None:
    with pytest.raises(UserError, match=r"folder is .*; it must be the path of a folder"):
        ag.resume(folder)
