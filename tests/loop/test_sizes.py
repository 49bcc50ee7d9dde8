"""Choosing sizes by the data and a limit of time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of

import archgrad as ag
from archgrad.config import SearchConfig, read_config
from archgrad.config.resolve import ResolvedSearch, method_of, space_of
from archgrad.loop import sizes
from archgrad.loop.sizes import candidate_sizes, fit_sizes

DIGITS = ag.data.digits()


class Machine:
    """A machine without noise: a step takes a millisecond for each channel and cell, a measurement what is given."""

    def __init__(self, scale: float = 1e-3, measuring: float = 0.0) -> None:
        self.scale, self.measuring = scale, measuring
        self.now, self.measured = 0.0, list[tuple[int | None, int | None]]()

    def monotonic(self) -> float:
        return self.now

    def step_seconds(self, parts: ResolvedSearch, data: Any, at_most: float) -> float:
        config = parts.config
        self.measured.append((config.channels, config.cells))
        self.now += self.measuring
        return self.scale * (config.channels or 1) * (config.cells or 10)


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(sizes, "_step_seconds", machine.step_seconds)
    monkeypatch.setattr(sizes, "time", machine)
    return machine


@pytest.mark.parametrize(
    ("minutes", "size"), [(0.05, (8, 1)), (0.7, (8, 1)), (0.8, (8, 3)), (1.3, (8, 5)), (2.6, (16, 5)), (60, (16, 5))]
)
def test_the_largest_supernet_that_has_time_to_learn(speed: Machine, minutes: float, size: tuple[int, int]) -> None:
    found = fit_sizes(SearchConfig(time_limit=minutes), DIGITS)
    assert (found.config.channels, found.config.cells) == size
    assert found.steps * found.step_seconds <= 60 * minutes
    assert found.config.epochs is not None
    assert found.config.epochs >= 20


def test_no_larger_supernet_is_measured_where_a_smaller_one_has_no_time_to_learn(speed: Machine) -> None:
    told: list[str] = []
    fit_sizes(SearchConfig(time_limit=0.1), DIGITS, told.append)
    assert speed.measured == [(8, 1)]
    assert told == ["measuring a few steps with 8 channels, depth 1 (--cells)"]
    fit_sizes(SearchConfig(time_limit=0.4), DIGITS)
    assert speed.measured[1:] == [(8, 1), (8, 3)]


def test_the_time_of_measuring_counts(speed: Machine) -> None:
    speed.measuring = 6.0
    found = fit_sizes(SearchConfig(time_limit=0.2), DIGITS)
    assert found.measuring_seconds == 6.0
    assert 5.0 < 60 * found.minutes <= 6.0
    speed.measured.clear()
    assert fit_sizes(SearchConfig(time_limit=0.6), DIGITS).config.cells == 1  # 36 s less 12 s are too few for 3 cells
    assert speed.measured == [(8, 1), (8, 3)]


def test_much_time_is_not_used_up(speed: Machine) -> None:
    found = fit_sizes(SearchConfig(time_limit=600), DIGITS).config
    assert (found.epochs, found.limit, found.batch_size) == (60, None, 64)  # 1,500 steps, 25 an epoch


def photos(count: int, side: int = 32) -> ag.data.ImageData:
    labels = torch.arange(count) % 10
    images = torch.zeros(count, 3, side, side, dtype=torch.uint8)
    return ag.data.ImageData("photos", images, labels, tuple(map(str, range(10))))


@pytest.mark.parametrize(("minutes", "pixels", "size", "limit"), [
    (0.6, 16, (8, 1), 12_800), (1.1, 16, (8, 3), 7_800), (5.0, 16, (8, 3), None), (25.0, None, (16, 5), None),
])  # fmt: skip
def test_time_goes_into_some_depth_then_into_images_and_last_into_pixels(
    speed: Machine, minutes: float, pixels: int | None, size: tuple[int, int], limit: int | None
) -> None:
    found = fit_sizes(SearchConfig(time_limit=minutes), photos(30_000)).config
    assert (found.search_size, found.channels, found.cells) == (pixels, *size)
    assert (found.limit or 0) == pytest.approx(limit or 0, rel=0.1)


def test_images_that_are_small_or_given_their_size_keep_it(speed: Machine) -> None:
    assert fit_sizes(SearchConfig(time_limit=1.0), photos(200, 12)).config.search_size is None
    assert fit_sizes(SearchConfig(time_limit=1.0, image_size=32), photos(200)).config.search_size is None
    assert fit_sizes(SearchConfig(time_limit=1.0, search_size=24), photos(200)).config.search_size == 24


def test_a_search_of_own_images_with_chosen_sizes_is_loaded_and_resumed(
    speed: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sizes, "candidate_sizes", lambda config, data: [(16, 2, 1)])
    images, options = photos(300), {"time_limit": 0.002, "threads": 1, "oracle": "none"}
    found = ag.search("nasbench201", "gaea-simultaneous", images, out=tmp_path / "run", **options)
    experiment = found.stages.whole
    assert experiment.config.limit is not None
    assert experiment.config.search_size == 16
    assert ag.SearchResult.load(tmp_path / "run", data=images).genotype == found.genotype
    assert ag.resume(tmp_path / "run", data=images).genotype == found.genotype


def test_too_few_steps_are_said_with_the_time_for_enough(speed: Machine) -> None:
    speed.scale = 1e-2  # 1,500 steps of 0.08 s and a quarter more are 2.5 minutes
    assert "--time-limit 3" in str(fit_sizes(SearchConfig(time_limit=1.0), DIGITS))
    assert "trust" not in str(fit_sizes(SearchConfig(time_limit=2.6), DIGITS))


def test_few_images_get_small_batches_and_more_epochs(speed: Machine) -> None:
    found = fit_sizes(SearchConfig(time_limit=10.0), ag.data.digits(limit=200)).config
    assert (found.batch_size, found.epochs) == (16, 137)  # 11 batches of 16 images each


def test_what_is_given_stays(speed: Machine) -> None:
    given = SearchConfig(time_limit=1.0, epochs=3, channels=4, limit=500, batch_size=20)
    found = fit_sizes(given, ag.data.digits(limit=500)).config
    assert (found.epochs, found.channels, found.limit, found.batch_size) == (3, 4, 500, 20)
    assert candidate_sizes(SearchConfig(cells=2, channels=4), DIGITS) == [(None, 4, 2)]


def test_sizes_that_are_settings_are_given_too(speed: Machine) -> None:
    settings = {"weights.epochs": "3", "weights.batch_size": 20, "space.channels": 4, "space.cells_per_stage": 2}
    assert SearchConfig(settings=settings).is_sized
    found = fit_sizes(SearchConfig(time_limit=1.0, settings=settings), DIGITS).config
    assert (found.epochs, found.batch_size, found.channels, found.cells) == (3, 20, 4, 2)
    with pytest.raises(ag.UserError, match="nothing is left to choose"):
        fit_sizes(SearchConfig(time_limit=1.0, settings=settings, limit=200), DIGITS)


@pytest.mark.parametrize(
    ("counts", "options"),
    [
        ([3] * 100, {"method": "darts"}),  # few images of many classes
        ([3000, 5], {"method": "darts"}),  # a rare class
        ([25, 25], {"settings": {"schedule.updates": "random"}}),
        ([10] * 10, {"method": "darts", "split": "0.8:0.1"}),
        ([20] * 2, {"method": "random-nas"}),
    ],
)
def test_whatever_the_data_a_search_of_the_chosen_sizes_begins(
    counts: list[int], options: dict[str, Any], speed: Machine, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    images = torch.randint(256, (len(labels), 1, 4, 4), dtype=torch.uint8)
    data = ag.data.ImageData("odd", images, labels, tuple(map(str, range(len(counts)))))
    monkeypatch.setattr(sizes, "candidate_sizes", lambda config, data: [(None, 2, 1)])
    monkeypatch.setattr(sizes, "LONGEST", float("inf"))
    config = fit_sizes(SearchConfig(time_limit=1e-6, **options), data).config
    space, method = space_of(config), method_of(config)
    part = data if config.limit is None else data.limited(config.limit, seed=0)
    setup = experiment_of(space, method, part, config)
    assert setup.steps > 0
    assert [line for line in said if "unequal" not in line] == []


def test_little_time_is_enough_for_few_epochs_of_few_images(speed: Machine) -> None:
    speed.scale = 1e-2
    found = fit_sizes(SearchConfig(time_limit=0.05), DIGITS)  # 30 steps
    assert (found.config.epochs, found.config.limit) == (15, 153)
    assert found.minutes <= 0.05
    found = fit_sizes(SearchConfig(time_limit=0.006), DIGITS)  # 3 steps
    assert (found.config.epochs, found.config.limit) == (3, 82)
    assert found.minutes <= 0.006
    given = SearchConfig(time_limit=0.02, limit=640, batch_size=64)  # 12 steps, 9 an epoch
    assert fit_sizes(given, ag.data.digits(limit=640)).config.epochs == 2


def test_the_fewest_images_are_two_of_each_class_in_each_part(speed: Machine) -> None:
    found = fit_sizes(SearchConfig(method="darts", batch_size=4, time_limit=0.01), DIGITS).config
    assert found.limit is not None
    data = DIGITS.limited(found.limit, seed=0)
    parts = ag.data.split(data.labels)
    assert min(data.labels[part].bincount().min().item() for part in (parts.weights, parts.architecture)) >= 2


def test_a_method_in_stages_becomes_shallow_and_short(speed: Machine) -> None:
    config = SearchConfig(space="darts", method="p-darts", time_limit=0.032)
    found = fit_sizes(config, DIGITS)
    warmup = method_of(found.config).schedule.warmup_epochs
    assert (found.config.channels, found.config.cells, found.config.epochs) == (8, 3, 2 * warmup + 1)
    assert found.steps == 3 * found.config.epochs  # a batch an epoch
    assert speed.measured == [(8, 3)]
    assert fit_sizes(replace(config, time_limit=1.5), DIGITS).config.cells == 5
    assert fit_sizes(replace(config, time_limit=60.0), DIGITS).config.cells is None


def test_what_cannot_be_kept_is_said_or_refused(speed: Machine) -> None:
    speed.scale = 1.0  # two steps of 8 seconds, so 20 in all
    assert "no smaller search is possible" in str(fit_sizes(SearchConfig(time_limit=0.3), DIGITS))
    assert "possible" not in str(fit_sizes(SearchConfig(time_limit=0.4), DIGITS))
    with pytest.raises(ag.UserError, match=r"2 epochs.* about 0.33 minutes.*time_limit is 0.2; give --time-limit 0.4,"):
        fit_sizes(SearchConfig(time_limit=0.2), DIGITS)
    speed.measuring = 10.0
    with pytest.raises(ag.UserError, match=r"about 0.5 minutes"):
        fit_sizes(SearchConfig(time_limit=0.3), DIGITS)


@pytest.mark.parametrize("method", ["pc-darts", "p-darts", "drnas", "idarts", "gaea", "lambda-darts"])
@pytest.mark.parametrize("space", ["nasbench201", "darts", "nasbench1shot1-2"])
def test_sizes_fit_every_kind_of_method(speed: Machine, space: str, method: str) -> None:
    found = fit_sizes(SearchConfig(space=space, method=method, time_limit=5.0), DIGITS).config
    chosen = method_of(found)
    chosen.check(space_of(found))
    assert found.epochs is not None
    assert found.epochs > chosen.schedule.warmup_epochs


def test_a_search_without_sizes_chooses_them_and_says_so(
    archgrad: Any, speed: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "candidate_sizes", lambda config, data: [(None, 2, 1)])
    out = archgrad.run("search", "--limit", 120, "--time-limit", 0.01, "--epochs", 2, "--out", "run")
    assert "measuring a few steps with 2 channels, depth 1" in out
    assert "chosen for 0.01 minutes (--time-limit): 2 channels, depth 1" in out
    config = SearchConfig(**read_config(Path("run/config.toml")))
    assert (config.channels, config.cells, config.time_limit) == (2, 1, None)
    assert config.is_sized


def test_zero_is_the_published_size() -> None:
    assert SearchConfig(time_limit=0.0).is_sized
    with pytest.raises(ag.UserError, match="time_limit is -1"):
        SearchConfig(time_limit=-1.0)


@pytest.mark.parametrize("space", ["macro", "mobile", "amended-a2"])
def test_a_space_that_decides_each_layer_keeps_its_depth(space: str) -> None:
    own = ag.spaces.SPACES.create(space)
    found = candidate_sizes(SearchConfig(space=space), DIGITS)
    assert found == [(None, own.channels // 2, own.cells), (None, own.channels, own.cells)]  # type: ignore[attr-defined]
