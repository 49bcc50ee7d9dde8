"""From images to a model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.data import ImageData
from archgrad.errors import SearchInterrupted, UserError
from archgrad.system.run_kind import write_kind
from archgrad.workflows import fit as fit_module
from archgrad.workflows import train_result
from archgrad.workflows.fit_plan import load_images
from archgrad.workflows.fit_report import FitResult
from tests.workflows.small_fit import PLAN, Killer, small_fit, write_images

ONE = replace(PLAN, searches=1)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    """A fit of digits that nothing has interrupted."""
    return small_fit(out=tmp_path_factory.mktemp("fit"))


def same(one: FitResult, other: FitResult) -> bool:
    first, second = (result.model.network.state_dict() for result in (one, other))
    equal = all(torch.equal(value, second[name]) for name, value in first.items())
    return equal and torch.equal(one.outputs, other.outputs) and one.comparison == other.comparison


def test_a_fit_leaves_a_model_a_report_and_its_result(done: FitResult) -> None:
    assert done.folder is not None
    assert {path.name for path in done.folder.iterdir()} == {
        "fit.json", "model", "report.html", "resnet", "run.json", "search-1", "search-2", "selection",
    }  # fmt: skip
    content = json.loads((done.folder / "fit.json").read_text())
    assert content["result"] == json.loads(json.dumps(done.to_dict()))
    assert (content["result"]["channels"], content["result"]["depth"], content["result"]["epochs"]) == (2, 1, 2)
    model = ag.Model.load(done.folder)
    assert torch.equal(model.logits(model.preprocessing.normalization(done.tests.images)), done.outputs)  # type: ignore[attr-defined]
    assert model.about["interval"] == list(done.interval)
    assert f"{done.accuracy:.2f} % of 20 test images" in (done.folder / "report.html").read_text()


def test_test_images_train_nothing(done: FitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[bytes] = set()
    tests, read = {bytes(one.numpy()) for one in done.tests.read(torch.arange(20))}, ImageData.read

    def watch(self: ImageData, indices: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
        found = read(self, indices, *args, **more)
        seen.update(bytes(one.numpy()) for one in found)
        return found

    monkeypatch.setattr(ImageData, "read", watch)
    monkeypatch.setattr(fit_module, "_written", lambda *args: done)
    monkeypatch.setattr(fit_module._Steps, "test", lambda self, *args: done)
    monkeypatch.setattr(
        train_result, "outputs_on", lambda network, data, chosen, how: torch.eye(10)[data.targets[chosen]]
    )
    small_fit()
    assert len(seen) == 80
    assert not tests & seen


def test_rounds_are_not_tested(done: FitResult) -> None:
    assert done.folder is not None
    rounds = list(done.folder.glob("selection/round-1/*/result.json"))
    assert len(rounds) == 2
    assert all("test" not in json.loads(path.read_text()) for path in rounds)
    assert "test" in json.loads((done.folder / "selection/final/result.json").read_text())


@pytest.mark.parametrize("part", ["search 2", "round 1 of 1: architecture 2"])
def test_a_killed_fit_continues_to_the_same_bits(done: FitResult, tmp_path: Path, part: str) -> None:
    killer, home = Killer(part), tmp_path / "fit"
    with pytest.raises(SearchInterrupted, match=re.escape(f"continue with `archgrad resume {home}`.")):
        small_fit(out=home, interruptible=True, callbacks=[killer], tell=killer.tell)
    assert same(done, ag.resume(home))


def test_decisions_by_time_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured times differ after a resume, and the sizes and epochs that hang on them must not."""
    space, functions = ag.spaces.NASBench201(channels=3, cells_per_stage=1), ("network_space", "training_epochs")
    for name, found in zip((*functions, "epoch_seconds"), (space, 2, 1e-4), strict=True):
        monkeypatch.setattr(fit_module, name, lambda *args, found=found: found)
    monkeypatch.setattr(fit_module, "_MOST_BASELINE_EPOCHS", 2)
    plan = replace(PLAN, searches=1, channels=None, cells=None, train_epochs=None, baseline_epochs=None)
    killer, home = Killer("training ResNet"), tmp_path / "fit"
    with pytest.raises(SearchInterrupted):
        small_fit(plan=plan, out=home, interruptible=True, callbacks=[killer], tell=killer.tell)
    decisions = json.loads((home / "fit.json").read_text())["decisions"]
    assert decisions == {"channels": 3, "cells": 1, "train_epochs": 2, "baseline_epochs": 2}
    for name in (*functions, "epoch_seconds"):
        monkeypatch.setattr(fit_module, name, lambda *args: pytest.fail("it is decided"))
    result = ag.resume(home)
    assert (result.selection.final.space.channels, result.plan) == (3, plan)
    assert result.seconds["planning"] > 0


@pytest.mark.parametrize("has_tests", [True, False])
def test_a_folder_of_images(tmp_path: Path, has_tests: bool) -> None:
    home = tmp_path / "pictures"
    if has_tests:
        write_images(home / "train", 20)
        write_images(home / "test", 6)
    else:
        write_images(home)
    result = small_fit(f"folder:{home}", plan=replace(PLAN, searches=1))
    assert result.tests.classes == ("bright", "dark")
    assert len(result.tests) == (12 if has_tests else 16)
    assert result.model.predict(result.tests.read(torch.arange(3)))[0].label in ("bright", "dark")


def test_images_of_different_sizes_are_resized(tmp_path: Path) -> None:
    home = write_images(tmp_path / "pictures", 25, sizes=(20, 48, 33))
    config = ag.SearchConfig(data=f"folder:{home}")
    images, tests = load_images(config, None, 60.0, None)
    assert (images.shape, tests.shape) == ((1, 32, 32), (1, 32, 32))
    assert load_images(config, None, 7200.0, None)[0].shape == (1, 64, 64)
    assert load_images(replace(config, image_size=12), None, 60.0, None)[0].shape == (1, 12, 12)
    assert load_images(config, None, 60.0, PLAN)[0].shape == (1, 8, 8)


def test_given_test_images_are_resized_too() -> None:
    large = ag.data.digits(limit=50, image_size=40)
    images, tests = load_images(ag.SearchConfig(data=large), ag.data.digits(limit=20, image_size=36), 60.0, None)
    assert (len(images), len(tests), images.shape, tests.shape) == (50, 20, (1, 32, 32), (1, 32, 32))


@pytest.mark.parametrize("changes", [{"data": ag.data.digits(limit=120)}, {"test": ag.data.digits(limit=30)}])
def test_other_images_on_resume(done: FitResult, changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="was begun with other images; give those"):
        ag.resume(done.folder, **changes)


def test_images_in_memory_are_given_again(tmp_path: Path) -> None:
    images, killer = ag.data.digits(limit=100), Killer("training ResNet")
    images = replace(images, origin=None)
    with pytest.raises(SearchInterrupted):
        small_fit(images, plan=ONE, out=tmp_path / "fit", interruptible=True, callbacks=[killer], tell=killer.tell)
    with pytest.raises(UserError, match=r"cannot be named in a file; .*archgrad\.resume\(DIR, data=…\)"):
        ag.resume(tmp_path / "fit")
    assert same(small_fit(images, plan=ONE), ag.resume(tmp_path / "fit", data=images))


def test_nothing_is_overwritten(done: FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "load_images", lambda *args: pytest.fail("nothing is loaded"))
    with pytest.raises(UserError, match=r"is not empty; choose a new folder, or continue .*`archgrad resume"):
        small_fit(out=done.folder)


@pytest.mark.parametrize(
    "change",
    [
        {"plan": {"image_size": -1}}, {"plan": {"size": 3}}, {"plan": 7}, {"images": 7},
        {"decisions": {"channels": 0}}, {"decisions": {"channels": "many"}}, {"decisions": []}, {"planning": "soon"},
        {"planning": float("nan")},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_plan_is_rejected(done: FitResult, tmp_path: Path, change: dict[str, Any]) -> None:
    assert done.folder is not None
    content = json.loads((done.folder / "fit.json").read_text())
    (tmp_path / "fit.json").write_text(json.dumps({**content, **change}))
    write_kind(tmp_path, "fit")
    with pytest.raises(UserError, match=r"another folder"):
        ag.resume(tmp_path)


IMAGES = torch.arange(60 * 64).remainder(256).to(torch.uint8).view(60, 1, 8, 8)


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        ((IMAGES, torch.zeros(60, dtype=torch.int64)), {}, "has 1 class; give data with at least 2"),
        ((IMAGES, torch.linspace(0, 1, 60)), {}, "the targets of .* are no classes, which fit needs"),
        ("digits", {"limit": 40}, "there are 8 images to test the model; give at least 10"),
        ("digits", {"budget": "soon"}, "budget is 'soon'; write a positive time with s, m, h or d"),
        ("digits", {"budget": 0}, "budget is '0'; write a positive time"),
        ("digits", {"max_params": 0}, "max_params is '0'; write a positive number"),
        ("digits", {"max_latency": "5 miles"}, "max_latency is '5 miles'; write a positive time in s, ms or us"),
        ("digits", {"epochs": 3}, "unknown option of fit: 'epochs'"),
        ("digits", {"plan": 3}, "plan is 3; it must be"),
        ("digits", {"image_size": 16}, "image_size is 16, but that of the plan is 8; give one"),
        ("nothing", {}, "unknown data 'nothing'"),
        ("digits", {"max_params": 100}, "no width keeps the limits: with 1 channel .* parameters, more than 100"),
        ("digits", {"max_madds": "1k"}, "no width keeps the limits: with 1 channel .* multiply-adds, more than 1,000"),
    ],
    ids=lambda one: "images" if isinstance(one, tuple) else str(one),
)  # fmt: skip
def test_mistakes_end_before_training_and_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(fit_module, "run_search", lambda *args, **more: pytest.fail("a search began"))
    with pytest.raises(UserError, match=message):
        small_fit(data, out=tmp_path / "fit", **changes)
    assert list(tmp_path.iterdir()) == []


def test_the_network_keeps_the_limits() -> None:
    result = small_fit(plan=replace(PLAN, searches=1, channels=16, train_epochs=1), max_params=9000)
    space, shape = result.selection.final.space, {"num_classes": 10, "input_channels": 1, "image_size": 8}
    assert result.selection.final.cost.parameters <= 9000
    assert replace(space, channels=space.channels + 1).cost(result.genotype, **shape).parameters > 9000
    assert result.baseline.cost.parameters <= result.selection.final.cost.parameters
