"""From images to a model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import archgrad as ag
from archgrad.config import read_run_config
from archgrad.data import ImageData, duplicates_in
from archgrad.errors import DiskError, SearchInterrupted, UserError
from archgrad.loop.folder import read_records
from archgrad.system.run_kind import write_kind
from archgrad.workflows import fit as fit_module
from archgrad.workflows import fit_steps, fit_trainings
from archgrad.workflows.candidates import pretrained, shape_of
from archgrad.workflows.fit_plan import FitPlan, load_images
from archgrad.workflows.fit_report import FitResult
from archgrad.workflows.length import Length
from archgrad.workflows.limits import Limits
from tests.workflows.small_fit import PLAN, Killer, small_fit, write_images

ONE = replace(PLAN, search_epochs=0, variants=0)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    """A fit of digits that nothing has interrupted."""
    return small_fit(out=tmp_path_factory.mktemp("fit"))


def same(one: FitResult, other: FitResult) -> bool:
    first, second = (result.model.network.state_dict() for result in (one, other))
    equal = all(torch.equal(value, second[name]) for name, value in first.items())
    same_rounds = all(
        [each.value for each in mine.candidates] == [each.value for each in others.candidates]
        for mine, others in zip(one.selection.rounds, other.selection.rounds, strict=True)
    )  # fmt: skip
    return equal and torch.equal(one.outputs, other.outputs) and one.candidate == other.candidate and same_rounds


def test_a_fit_leaves_a_model_a_report_and_its_result(done: FitResult) -> None:
    assert done.folder is not None
    assert {path.name for path in done.folder.iterdir()} == {
        "config.toml", "final", "fit.json", "genotype.json", "metrics.jsonl", "model", "report.html", "round-1",
        "round-2", "run.json", "search",
    }  # fmt: skip
    content = json.loads((done.folder / "fit.json").read_text())
    assert content["result"] == json.loads(json.dumps(done.to_dict()))
    assert (content["result"]["channels"], content["result"]["depth"], content["result"]["epochs"]) == (2, 1, 2)
    model = ag.Model.load(done.folder)
    assert torch.equal(model.logits(model.preprocessing.normalization(done.tests.images)), done.outputs)  # type: ignore[attr-defined]
    assert model.about["interval"] == list(done.interval)
    assert f"{done.accuracy:.2f} % on 20 images" in (done.folder / "report.html").read_text()


def test_test_images_train_and_rank_nothing(done: FitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[bytes] = set()
    tests, read = {bytes(one.numpy()) for one in done.tests.read(torch.arange(20))}, ImageData.read

    def watch(self: ImageData, indices: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
        found = read(self, indices, *args, **more)
        seen.update(bytes(one.numpy()) for one in found)
        return found

    monkeypatch.setattr(ImageData, "read", watch)
    monkeypatch.setattr(fit_module, "_written", lambda *args: done)
    monkeypatch.setattr(fit_steps.FitSteps, "test", lambda self, *args: done)
    small_fit()
    assert len(seen) == 80
    assert not tests & seen


def test_a_fit_is_a_run_directory(done: FitResult) -> None:
    config = read_run_config(done.folder or Path())
    assert (config.data, config.limit, config.image_size) == ("digits", 100, 8)
    assert len(read_records(done.folder or Path())) == 2
    assert config.settings["space.architecture"] == str(done.genotype)


def test_a_finished_fit_that_is_read_again_takes_no_time(done: FitResult) -> None:
    assert done.folder is not None
    before = (done.folder / "fit.json").read_bytes()
    assert ag.resume(done.folder).total == pytest.approx(done.total)
    assert json.loads((done.folder / "fit.json").read_bytes())["spent"] == json.loads(before)["spent"]


@pytest.mark.parametrize("part", ["searching", "round 1 of 2: ResNet", "round 2 of 2", "training the winner"])
def test_a_killed_fit_continues_to_the_same_bits(done: FitResult, tmp_path: Path, part: str) -> None:
    killer, home = Killer(part), tmp_path / "fit"
    with pytest.raises(SearchInterrupted, match=re.escape(f"continue with `archgrad resume {home}`.")):
        small_fit(out=home, interruptible=True, callbacks=[killer], tell=killer.tell)
    (home / ".fit.json.0123456789abcdef.part").write_text("half")
    (home / "round-3").mkdir()
    assert same(done, ag.resume(home))
    assert not list(home.rglob("*.part"))


def test_decisions_by_time_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured times differ after a resume, and the sizes and epochs that hang on them must not."""
    monkeypatch.setattr(fit_trainings, "epoch_seconds", lambda *args: 10.0)
    killer, home = Killer("training the winner"), tmp_path / "fit"
    plan = FitPlan(8, search_epochs=0, channels=2, networks=2, variants=0)
    with pytest.raises(SearchInterrupted):
        small_fit(
            plan=plan, precision=None, budget="1s", out=home, interruptible=True, callbacks=[killer], tell=killer.tell
        )
    decisions = json.loads((home / "fit.json").read_text())["decisions"]
    assert set(decisions) == {"threads", "precision-resnet", "precision-nasbench201", "candidates", "round-1", "final"}
    monkeypatch.setattr(fit_trainings, "epoch_seconds", lambda *args: pytest.fail("it is decided"))
    result = ag.resume(home)
    assert result.selection.final.epochs == decisions["final"][0]
    assert result.total > 0


def test_a_comparison_over_seeds_is_resumed(tmp_path: Path) -> None:
    killer, home = Killer("comparing over 2 seeds: ResNet"), tmp_path / "fit"
    whole = small_fit(compare=2)
    assert whole.over_seeds is not None
    with pytest.raises(SearchInterrupted):
        small_fit(compare=2, out=home, interruptible=True, callbacks=[killer], tell=killer.tell)
    assert ag.resume(home).over_seeds == whole.over_seeds
    assert json.loads((home / "fit.json").read_text())["result"]["compared"]["verdict"] == str(whole.over_seeds)


def test_unequal_classes_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    images = torch.arange(120 * 64).remainder(251).to(torch.uint8).view(120, 1, 8, 8)
    small_fit((images, (torch.arange(120) % 12 == 0).long()), plan=ONE, threads=None)
    assert ["are unequal: '0' has 88 training images, and '1' 8." in one.message for one in caplog.records] == [True]


def test_copies_of_training_images_are_not_held_out(caplog: pytest.LogCaptureFixture) -> None:
    images, targets = torch.arange(200 * 64).remainder(251).to(torch.uint8).view(200, 1, 8, 8), torch.arange(200) % 2
    images[50:80] = images[:30]
    found = load_images(ag.SearchConfig(data=ImageData("x", images, targets, ("a", "b"))), None, 60.0, FitPlan())
    assert not duplicates_in(found.every, found.tests).any()
    assert not duplicates_in(found.train, found.ranking).any()
    assert len(found.every) + len(found.tests) == 200
    assert len(found.train) + len(found.ranking) == len(found.every)
    assert "are copies of training images, pixel by pixel: they train instead" in caplog.text
    same = ImageData("x", images[:1].repeat(200, 1, 1, 1), targets, ("a", "b"))
    with pytest.raises(UserError, match=r"all 40 images of 'x' .* are copies of training images"):
        load_images(ag.SearchConfig(data=same), None, 60.0, FitPlan())


@pytest.mark.parametrize("has_tests", [True, False])
def test_a_folder_of_images(tmp_path: Path, has_tests: bool) -> None:
    home = tmp_path / "pictures"
    if has_tests:
        write_images(home / "train", 20)
        write_images(home / "test", 6)
    else:
        write_images(home)
    result = small_fit(str(home) if has_tests else f"folder:{home}", plan=ONE)
    assert result.tests.classes == ("bright", "dark")
    assert len(result.tests) == (12 if has_tests else 16)
    assert result.model.predict(result.tests.read(torch.arange(3)))[0].label in ("bright", "dark")
    assert re.fullmatch(r"bright/\d+\.png", result.tests.file_of(int((result.tests.targets == 0).nonzero()[0])))


def test_tiny_classes_and_a_mix_of_grey_and_color(tmp_path: Path) -> None:
    home = write_images(tmp_path / "pictures", sizes=(8, 12))
    for name, count in (("rare", 2), ("single", 1)):
        (home / name).mkdir()
        for number in range(count):
            Image.new("RGB", (9, 8), (number, 90, 200)).save(home / name / f"{number}.png")
    result = small_fit(str(home), plan=ONE)
    assert result.tests.shape == (3, 8, 8)
    assert result.train_targets is not None
    assert result.train_targets.bincount().tolist() == [32, 32, 1, 1]
    assert result.tests.targets.bincount(minlength=4).tolist() == [8, 8, 1, 0]


def test_images_of_different_sizes_are_resized(tmp_path: Path) -> None:
    home = write_images(tmp_path / "pictures", 25, sizes=(20, 48, 33))
    config = ag.SearchConfig(data=f"folder:{home}")
    images = load_images(config, None, 60.0, FitPlan())
    assert (images.every.shape, images.tests.shape) == ((1, 32, 32), (1, 32, 32))
    assert images.resized(16, "crop").ranking.shape == (1, 16, 16)
    assert load_images(config, None, 7200.0, FitPlan()).train.shape == (1, 64, 64)
    assert load_images(replace(config, image_size=12), None, 60.0, FitPlan()).train.shape == (1, 12, 12)
    assert load_images(config, None, 60.0, PLAN).train.shape == (1, 8, 8)


def test_given_test_images_are_resized_too() -> None:
    large = ag.data.digits(limit=50, image_size=40)
    found = load_images(ag.SearchConfig(data=large), ag.data.digits(limit=20, image_size=36), 60.0, FitPlan())
    assert [len(one) for one in (found.every, found.train, found.ranking, found.tests)] == [50, 38, 12, 20]
    assert (found.every.shape, found.tests.shape) == ((1, 32, 32), (1, 32, 32))


@pytest.mark.parametrize("changes", [{"data": ag.data.digits(limit=120)}, {"test": ag.data.digits(limit=30)}])
def test_other_images_on_resume(done: FitResult, changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="was begun with other images; give those"):
        ag.resume(done.folder, **changes)


def test_images_in_memory_are_given_again(tmp_path: Path) -> None:
    images, killer = ag.data.digits(limit=100), Killer("training the winner")
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
        {"decisions": []}, {"spent": "soon"}, {"spent": float("nan")}, {"decisions": {"candidates": []}},
        {"decisions": {"candidates": {"networks": [{"space": "x"}], "variants": 0, "final": 1.0}}},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_plan_is_rejected(done: FitResult, tmp_path: Path, change: dict[str, Any]) -> None:
    assert done.folder is not None
    content = json.loads((done.folder / "fit.json").read_text())
    (tmp_path / "fit.json").write_text(json.dumps({**content, **change}))
    write_kind(tmp_path, "fit")
    with pytest.raises(UserError, match=r"another folder|start a new fit"):
        ag.resume(tmp_path)


IMAGES = torch.arange(60 * 64).remainder(256).to(torch.uint8).view(60, 1, 8, 8)


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        ((IMAGES, torch.zeros(60, dtype=torch.int64)), {}, "has 1 class; give data with at least 2"),
        ((IMAGES, torch.linspace(0, 1, 60)), {}, "targets of .* are no classes, which the task classification needs"),
        ("digits", {"limit": 40}, "there are 8 images to test the model; give at least 10"),
        ("digits", {"budget": "soon"}, "budget is 'soon'; write a positive time with s, m, h or d"),
        ("digits", {"budget": 0}, "budget is '0'; write a positive time"),
        ("digits", {"max_params": 0}, "max_params is '0'; write a positive number"),
        ("digits", {"max_latency": "5 miles"}, "max_latency is '5 miles'; write a positive time in s, ms or us"),
        ("digits", {"epochs": 3}, "unknown option of fit: 'epochs'"),
        ("digits", {"plan": 3}, "plan is 3; it must be"),
        ("digits", {"image_size": 16}, "image_size is 16, but that of the plan is 8; give one"),
        ("nothing", {}, "unknown data 'nothing'"),
        ("digits", {"max_params": 50}, "no width keeps the limits: .* parameters, more than 50"),
        ("digits", {"max_madds": "1k"}, "no width keeps the limits: .* multiply-adds, more than 1,000"),
        ("digits", {"compare": 0}, "compare is 0"),
        ("digits", {"settings": {"weights.lr": -1.0}}, "weights.lr"),
        ("digits", {"settings": {"nothing.lr": 1.0}}, "nothing"),
    ],
    ids=lambda one: "images" if isinstance(one, tuple) else str(one),
)  # fmt: skip
def test_mistakes_end_before_training_and_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(fit_steps, "run_search", lambda *args, **more: pytest.fail("a search began"))
    with pytest.raises(UserError, match=message):
        small_fit(data, out=tmp_path / "fit", **changes)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_whole_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "fit"

    def full(*args: Any, **more: Any) -> None:
        raise DiskError(f"the run folder {home}/final cannot be written (full); then `archgrad resume {home}/final`.")

    with monkeypatch.context() as patched:
        patched.setattr(fit_trainings, "run_training", full)
        with pytest.raises(DiskError, match=re.escape(f"then `archgrad resume {home}` continues.")):
            small_fit(out=home, plan=ONE)
    assert ag.resume(home).folder == home


def test_results_are_short(done: FitResult) -> None:
    for one in (done, done.selection, done.selection.final, done.model):
        assert len(repr(one)) < 400
        assert type(one).__name__ in one._repr_html_()


def test_a_trained_model_competes_with_its_weights(done: FitResult, tmp_path: Path) -> None:
    begun = small_fit(start_from=done.folder, plan=replace(ONE, networks=1, train_epochs=1), out=tmp_path / "fit")
    assert begun.candidate.start_from == str(done.folder)
    assert begun.genotype == done.genotype
    training = json.loads((tmp_path / "fit" / "fit.json").read_text())["decisions"]["candidates"]["networks"]
    assert [one["start_from"] for one in training] == [str(done.folder)]
    fresh = small_fit(plan=replace(ONE, networks=1, train_epochs=1))
    assert (
        begun.selection.final.runs[0].history[0]["train_loss"] < fresh.selection.final.runs[0].history[0]["train_loss"]
    )


def test_a_model_above_the_limits_is_refused_as_a_start(done: FitResult) -> None:
    with pytest.raises(UserError, match=r"whose network takes .* parameters, more than 10; give another model or high"):
        small_fit(start_from=done.folder, max_params=10, plan=ONE)


def test_a_callback_watches_the_search_and_every_training(tmp_path: Path) -> None:
    small_fit(out=tmp_path / "fit", callback="csv")
    assert {path.parent.name for path in (tmp_path / "fit").rglob("metrics.csv")} == {"search", "1", "2", "final"}


def test_a_trained_model_keeps_its_stem(tmp_path: Path) -> None:
    images = ag.data.digits(limit=40)
    small = {"channels": 2, "cells": 3, "stem": "imagenet", "epochs": 1, "batch_size": 20}
    ag.train("mobilenet", "mobilenet", images, out=tmp_path / "run", **small)
    found, space = pretrained(tmp_path / "run", shape_of(images, 10), Limits()), ag.Model.load(tmp_path / "run").space
    assert found.sized == found.training(images, Length(1, 40), {}).network.base == space
