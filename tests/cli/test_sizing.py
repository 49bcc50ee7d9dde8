"""Choosing sizes by the data and a limit of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import archgrad as ag
from archgrad.cli import sizing
from archgrad.cli.sizing import fitted, rungs
from archgrad.config import RunConfig, read_config

DIGITS = ag.data.digits()


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes a millisecond for each channel and cell."""
    monkeypatch.setattr(sizing, "_step_seconds", lambda config, data: 1e-3 * config.channels * (config.cells or 1))


@pytest.mark.parametrize(
    ("minutes", "size"), [(0.05, (8, 1)), (0.1, (8, 1)), (0.3, (8, 3)), (0.5, (8, 5)), (2.0, (16, 5)), (60, (16, 5))]
)
def test_the_largest_supernet_that_has_time_to_learn(speed: None, minutes: float, size: tuple[int, int]) -> None:
    found = fitted(RunConfig(time_limit=minutes), DIGITS)
    assert (found.config.channels, found.config.cells) == size
    assert found.steps * found.step_seconds <= 60 * minutes
    assert found.config.epochs is not None
    assert found.config.epochs >= 20


def test_much_time_is_not_used_up(speed: None) -> None:
    found = fitted(RunConfig(time_limit=600), DIGITS).config
    assert (found.epochs, found.limit, found.batch_size) == (40, None, 64)  # twice 500 steps of 25 a epoch


def test_too_many_images_for_the_time_are_not_all_used(speed: None) -> None:
    many = ag.data.ImageData("many", DIGITS.images.repeat(20, 1, 1, 1), DIGITS.labels.repeat(20), DIGITS.classes)
    found = fitted(RunConfig(time_limit=1.0), many).config
    assert found.epochs == 20
    assert found.limit is not None
    assert found.limit < len(many) / 4


def test_few_images_get_small_batches_and_more_epochs(speed: None) -> None:
    found = fitted(RunConfig(time_limit=10.0), ag.data.digits(limit=200)).config
    assert (found.batch_size, found.epochs) == (16, 91)  # 11 batches of 16 images each


def test_what_is_given_stays(speed: None) -> None:
    given = RunConfig(time_limit=1.0, epochs=3, channels=4, limit=500, batch_size=20)
    found = fitted(given, ag.data.digits(limit=500)).config
    assert (found.epochs, found.channels, found.limit, found.batch_size) == (3, 4, 500, 20)
    assert rungs(RunConfig(cells=2, channels=4)) == [(4, 2)]


@pytest.mark.parametrize("method", ["pc-darts", "p-darts", "drnas", "idarts", "gaea"])
@pytest.mark.parametrize("space", ["nasbench201", "darts", "nasbench1shot1-2"])
def test_sizes_fit_every_kind_of_method(speed: None, space: str, method: str) -> None:
    found = fitted(RunConfig(space=space, method=method, time_limit=5.0), DIGITS).config
    chosen = found.build_method()
    chosen.check(found.build_space())
    assert found.epochs is not None
    assert found.epochs > chosen.schedule.warmup_epochs


def test_a_search_without_sizes_chooses_them_and_says_so(archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "rungs", lambda config: [(2, 1)])
    code, out, err = archgrad("search", "--limit", 120, "--time-limit", 0.01, "--out", "run")
    assert code == 0, err
    assert "chosen for 0.01 minutes (--time-limit): 2 channels, depth 1" in out
    config = RunConfig(**read_config(Path("run/config.toml")))
    assert (config.channels, config.cells, config.time_limit) == (2, 1, None)
    assert config.is_sized


def test_zero_is_the_published_size() -> None:
    assert RunConfig(time_limit=0.0).is_sized
    with pytest.raises(ag.UserError, match="time_limit is -1"):
        RunConfig(time_limit=-1.0)
