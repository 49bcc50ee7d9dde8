"""How a fit spends its time, and by what it chooses, on a machine without noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archgrad.config.resolve import space_of
from archgrad.data import Augmentation
from archgrad.errors import DivergedError
from archgrad.spaces import Cost, NASBench201
from archgrad.tasks import MetricInfo
from archgrad.workflows import TrainedSeed, Training, TrainResult
from archgrad.workflows.candidates import Candidate
from archgrad.workflows.fit_plan import FitPlan
from archgrad.workflows.halving import hold_round
from archgrad.workflows.length import Length, length_within
from archgrad.workflows.pacing import Clock, Schedule, schedule_rounds
from tests.workflows.fake_fit import FOUND, Machine, machine, pictures

__all__ = ["machine"]

DATA = pictures(4000, 32)
COLORED = replace(DATA, augmentation=Augmentation(flip=True))
MINUTES = (1, 2, 5, 20, 120)


@pytest.mark.parametrize("minutes", MINUTES)
@pytest.mark.parametrize("seeming", [0.7, 1.0, 1.4], ids=["slower", "as-measured", "faster"])
def test_the_budget_is_kept(machine: Machine, minutes: int, seeming: float) -> None:
    machine.seeming = seeming
    machine.fit(COLORED, 60.0 * minutes)
    final = machine.spans[-1][1]
    assert 0.85 <= machine.now / (60 * minutes) <= 1.05
    assert final >= 0.35 * 60 * minutes


@pytest.mark.parametrize("images", [300, 50_000])
def test_the_budget_is_kept_with_few_and_many_images(machine: Machine, images: int) -> None:
    machine.fit(pictures(images, 16), 300.0)
    assert 0.85 <= machine.now / 300 <= 1.05


def test_a_long_training_of_short_epochs_keeps_the_budget(machine: Machine) -> None:
    """Measurements and checkpoints take as long as the images; a few whole epochs tell."""
    machine.speed, machine.per_epoch = 6e11, 1.0
    machine.fit(pictures(300, 16), 60.0, plan=FitPlan(search_epochs=0, networks=1, variants=0))
    pilot, final = (one.config.epochs for one in machine.trainings)
    assert pilot == 2
    assert final > 20
    assert 0.85 <= machine.now / 60 <= 1.05


def test_the_trainings_of_a_round_take_the_same_time(machine: Machine) -> None:
    result = machine.fit(DATA, 7200.0)
    assert [len(one.candidates) for one in result.selection.rounds] == [4, 2, 2]
    for done in result.selection.rounds:
        spans = [one.seconds for one in done.candidates]
        assert max(spans) <= 1.1 * min(spans)
    seen = {one.config.epochs * one.config.settings.get("weights.epoch_images", 0) for one in machine.trainings[:4]}
    assert len(seen) > 1  # because their networks differ


def test_longer_budgets_have_larger_networks(machine: Machine) -> None:
    machine.value = lambda one: 90.0 if (one.network.cells, one.config.data.image_size) == (3, 32) else 80.0
    sizes = []
    for minutes in MINUTES:
        machine.fit(DATA, 60.0 * minutes)
        config = machine.trainings[-1].config
        sizes.append(machine.seconds_of(config, 1))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 5 * sizes[0]


def test_a_network_that_has_trained_tells_the_speed_better_than_measured_steps(machine: Machine) -> None:
    """The test of mirrored images trains one, before the others are sized."""
    sizes = set()
    for machine.seeming in (0.7, 1.0, 1.4):
        machine.fit(COLORED, 300.0)
        sizes.add(space_of(machine.trainings[-1].config).channels)
    assert len(sizes) == 1


def kind_of(training: Training) -> str:
    return "searched" if training.network.fixed == FOUND else training.network.base.name


@pytest.mark.parametrize("best", ["searched", "resnet", "nasbench201", "mobilenet"])
def test_the_winner_on_held_out_images_is_handed_over(machine: Machine, best: str) -> None:
    """The best on test images is another one: these are not even seen before the end."""
    machine.value = lambda training: 90.0 if kind_of(training) == best else 80.0
    result = machine.fit(DATA, 1800.0)
    assert kind_of(machine.trainings[-1]) == best
    assert result.candidate.searched == (best == "searched")
    assert result.added.is_searched == (best == "searched")
    assert (result.added.value, result.added.rival_value) == (90.0, 80.0)
    assert ("the search added nothing" in str(result.added)) == (best != "searched")
    assert all(training.test != "none" for training in machine.trainings[:-1])
    assert machine.trainings[-1].test == "none"
    seen = {len(training.test) for training in machine.trainings[:-1]}
    assert seen == {1000}  # the held-out images, a quarter
    assert len(machine.trainings[-1].config.data) == 4000  # the last training has them too


@pytest.mark.parametrize("budget", [300.0, 1800.0])
@pytest.mark.parametrize(("worse", "flips"), [(2.0, True), (4.0, False)])
def test_images_are_flipped_if_mirrored_ones_are_alike(
    machine: Machine, budget: float, worse: float, flips: bool
) -> None:
    machine.mirrored = worse
    machine.fit(COLORED, budget)
    first, *others = machine.trainings
    assert first.config.settings["augmentation.flip"] is False  # the network that tells has seen none
    assert others
    assert all(one.config.settings["augmentation.flip"] is flips for one in others)
    assert any("standard errors" in line for line in machine.told)
    assert 0.85 <= machine.now / budget <= 1.05


@pytest.mark.parametrize(
    ("data", "budget", "settings"),
    [("gray", 300.0, {}), ("colored", 300.0, {"augmentation.flip": True}), ("colored", 5.0, {})],
    ids=["gray images are not flipped", "as the user says", "too little time"],
)
def test_mirrored_images_are_not_tested(machine: Machine, data: str, budget: float, settings: dict[str, Any]) -> None:
    machine.fit(DATA if data == "gray" else COLORED, budget, settings=settings)
    assert not any("standard errors" in line for line in machine.told)
    assert {one.config.settings.get("augmentation.flip") for one in machine.trainings} == {
        settings.get("augmentation.flip")
    }


def test_a_candidate_that_diverges_drops_out(machine: Machine) -> None:
    def value(training: Training) -> float:
        if kind_of(training) == "resnet" or training.config.settings.get("weights.lr") == 0.1:
            raise DivergedError("the loss is not finite")
        return 50.0

    machine.value = value
    result = machine.fit(DATA, 1800.0)
    assert (result.candidate.space, len(result.selection.rounds[0].candidates)) == ("nasbench201", 3)
    machine.value = lambda training: value(
        replace(training, config=replace(training.config, settings={"weights.lr": 0.1}))
    )
    with pytest.raises(DivergedError):
        machine.fit(DATA, 1800.0)


def test_a_budget_that_is_too_short_for_a_search_names_one_that_is_not(machine: Machine) -> None:
    result = machine.fit(DATA, 60.0)
    (told,) = (line for line in machine.told if "too short for a search" in line)
    _, _, longer = told.partition("--budget ")
    minutes = float(longer.partition("m")[0])
    assert not any(kind_of(one) == "searched" for one in machine.trainings)
    assert "there was no search" in result.verdict
    machine.fit(DATA, 60 * minutes)
    assert any("searching for a cell" in line for line in machine.told)


def test_the_search_may_find_a_known_cell(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    from archgrad.workflows.candidates import BEST_CELL

    monkeypatch.setattr("tests.workflows.fake_fit.FOUND", BEST_CELL)
    result = machine.fit(DATA, 1800.0)
    assert any("a candidate without any search" in line for line in machine.told)
    assert not result.candidate.searched


def test_every_line_tells_the_time_left(machine: Machine) -> None:
    machine.fit(DATA, 1800.0)
    begun = [line for line in machine.told if line.startswith(("round", "training", "search")) and "%" not in line]
    assert len(begun) > 6
    assert all(line.endswith("left in all") for line in begun if "chose" not in line)


def test_comparing_over_seeds_takes_equal_time(machine: Machine) -> None:
    def value(training: Training) -> float:
        return {"searched": 90.0, "resnet": 80.0}.get(kind_of(training), 70.0) + len(machine.spans) % 2

    machine.value = value
    result = machine.fit(DATA, 1800.0, compare=3)
    winner, rival = machine.trainings[-2:]
    assert (winner.seeds, rival.seeds) == ((2, 3, 4), (2, 3, 4))
    assert (kind_of(winner), kind_of(rival)) == ("searched", "resnet")
    own, other = machine.spans[-6:-3], machine.spans[-3:]
    assert sum(seconds for _, seconds in other) == pytest.approx(sum(seconds for _, seconds in own), rel=0.05)
    assert result.over_seeds is not None
    assert len(result.over_seeds.differences) == 3
    assert 9 <= sum(result.over_seeds.differences) / 3 <= 11


@pytest.mark.parametrize("limit", [{"max_params": "20k"}, {"max_madds": "1M"}], ids=str)
def test_all_candidates_keep_the_limits(machine: Machine, limit: dict[str, Any]) -> None:
    machine.fit(DATA, 300.0, **limit)
    shape = {"num_classes": 10, "input_channels": 3}
    for one in machine.trainings:
        cost = one.network.base.cost(one.network.fixed, **shape, image_size=one.config.data.image_size)
        assert cost.parameters <= 20_000 or "max_params" not in limit
        assert cost.multiply_adds <= 1_000_000 or "max_madds" not in limit


@pytest.mark.parametrize(
    ("lead", "budget", "chosen"), [(20.0, 1800.0, True), (20.0, 60.0, False), (2.0, 1800.0, False)]
)
def test_only_a_clear_lead_changes_a_setting(machine: Machine, lead: float, budget: float, chosen: bool) -> None:
    """Of 1,000 held-out images two standard errors are four points; a short fit tries no other settings."""
    machine.value = lambda training: 60.0 + lead * (training.config.settings.get("weights.lr") == 0.1)
    result = machine.fit(DATA, budget)
    assert result.candidate.settings == ({"weights.lr": 0.1} if chosen else {})
    assert any("no clear lead" in line for line in machine.told) == (not chosen and budget > 60)


@pytest.mark.parametrize(
    ("gain", "given", "wanted"), [(2.0, {}, "bf16"), (1.1, {}, "32"), (2.0, {"precision": "32"}, "32")]
)
def test_trainings_are_in_bfloat16_where_that_is_clearly_faster(
    machine: Machine, gain: float, given: dict[str, str], wanted: str
) -> None:
    machine.bf16_gain = gain
    machine.fit(DATA, 300.0, **given)
    assert {one.config.precision for one in machine.trainings} == {wanted}
    assert 0.85 <= machine.now / 300 <= 1.05


def test_each_kind_of_network_has_its_own_precision(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs train depthwise convolutions more slowly in bfloat16."""
    usual = machine.seconds_of

    def seconds_of(config: Any, images: int) -> float:
        depthwise = space_of(config).name == "mobilenet" or "mobilenet" in str(getattr(space_of(config), "of", ""))
        return usual(config, images) * (4 if depthwise and config.precision == "bf16" else 1)

    machine.bf16_gain = 2.0
    monkeypatch.setattr(machine, "seconds_of", seconds_of)
    machine.fit(DATA, 1800.0)
    found = {(kind_of(one), one.config.precision) for one in machine.trainings}
    assert {("resnet", "bf16"), ("mobilenet", "32"), ("searched", "bf16")} <= found
    assert len({kind for kind, _ in found}) == len(found)
    assert any("networks of resnet train in bfloat16" in line for line in machine.told)


@pytest.mark.parametrize(
    ("budget", "spent", "rate", "images", "found"),
    [
        (300.0, 75.0, 1e3, 1000, (4, 2)),
        (300.0, 140.0, 1e3, 1000, (2, 1)),
        (300.0, 75.0, 250.0, 1000, (2, 1)),
        (30.0, 7.0, 400.0, 130, (1, 0)),  # rounds of 250 images
        (300.0, 75.0, 190.0, 1000, (1, 0)),  # 28 epochs are better used by one
        (3600.0, 900.0, 430.0, 50_000, (1, 0)),  # 774,000 images too
        (3600.0, 900.0, 470.0, 50_000, (4, 2)),
    ],
)  # fmt: skip
def test_few_candidates_rather_than_short_trainings(
    budget: float, spent: float, rate: float, images: int, found: tuple[int, int]
) -> None:
    clock = Clock(budget, spent)
    schedule = schedule_rounds(clock, rate, images)
    assert (schedule.networks, schedule.variants) == found
    assert schedule.final == pytest.approx(clock.left if found == (1, 0) else clock.final, rel=1e-3)


def test_a_late_part_is_part_of_the_time_left() -> None:
    assert Clock(100.0, 39.5).left_in_all(5.0) == "1:00 left in all"
    assert Clock(100.0, 99.5).left_in_all(65.0) == "1:05 left in all"


def test_a_schedule_shares_the_time() -> None:
    assert Schedule(4, 2).weights() == [4, 4, 4]
    assert Schedule(4, 2).seconds(0, 120.0) == 10
    assert Schedule(4, 2).seconds(2, 40.0) == 20
    assert Schedule(1, 1).seconds(0, 40.0) == 20


def test_fewer_images_rather_than_fewer_epochs() -> None:
    assert length_within(10.0, 100.0, 10_000, 10) == Length(8, 128)
    assert length_within(0.1, 1.0, 10_000, 10) == Length(1, 128)
    assert length_within(0.1, 1.0, 10_000, 100).images == 400
    assert length_within(1e6, 1e6, 10, 2).epochs == 1000


@pytest.mark.parametrize("wrong", [{"space": "darts"}, {"channels": 0}, {"genotype": "|x~0|"}, {"extra": 1}], ids=str)
def test_a_wrong_candidate_in_a_file(wrong: dict[str, Any]) -> None:
    right = {"space": "resnet", "genotype": "|", "channels": 8, "cells": 1, "image_size": 8}
    with pytest.raises(ValueError, match=r"[;.]"):
        Candidate.of({**right, **wrong})


def test_balanced_accuracy_ranks_where_the_task_has_it() -> None:
    def result(accuracy: float, balanced: float) -> TrainResult:
        test = {"accuracy": accuracy, "balanced_accuracy": balanced}
        run = TrainedSeed(0, None, (), 1.0, None, test)  # type: ignore[arg-type]
        return TrainResult(NASBench201(), FOUND, 1, Cost(1, 1), MetricInfo("accuracy", True, "%"), (run,))

    known = {"common": result(90.0, 20.0), "fair": result(80.0, 70.0)}
    assert hold_round(
        {}, lambda *args: pytest.fail("all are known"), 1, "test", MetricInfo("balanced_accuracy"), known
    )[0].names == ["fair"]
    for metric, best in {"balanced_accuracy": "fair", "another": "common"}.items():
        done, _ = hold_round({}, lambda *args: pytest.fail("all are known"), 1, "test", MetricInfo(metric), known)
        assert done.names == [best]
