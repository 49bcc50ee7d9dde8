"""Where the test images come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import archgrad as ag
from archgrad import data as data_room
from archgrad.errors import NoTestImagesError, SearchInterrupted, UserError
from archgrad.system.warn_once import forget_warnings
from archgrad.workflows import Training
from archgrad.workflows.test_images import accuracy_interval, find_test_images
from tests.workflows.small import CELL, TINY, assert_same_bits, interrupting

IMAGES = np.random.default_rng(0).integers(0, 255, (90, 8, 8), np.uint8)
LABELS = np.arange(90) % 3


def archive(path: Path, **arrays: NDArray[Any]) -> str:
    np.savez(path, x_train=IMAGES[:60], y_train=LABELS[:60], **arrays)
    return f"npz:{path}"


def folder(home: Path, count: int, classes: str = "ab") -> Path:
    for number in range(count):
        file = home / classes[number % len(classes)] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(IMAGES[number]).save(file)
    return home


def found(data: Any, given: Any = None, **options: Any) -> ag.data.Data | None:
    config = Training.of("nasbench201", CELL, data, epochs=1, **options).config
    return find_test_images(config, config.load_data(), given)


def test_of_an_archive(tmp_path: Path) -> None:
    name = archive(tmp_path / "a.npz", x_test=IMAGES[60:], y_test=LABELS[60:])
    for data in (name, data_room.load(name)):
        tests = found(data)
        assert tests is not None
        assert len(tests) == 30
        assert np.array_equal(tests.images[:, 0].numpy(), IMAGES[60:])  # type: ignore[attr-defined]
    resized = found(name, image_size=4, limit=12)  # a limit is for the training images
    assert resized is not None
    assert (len(resized), resized.image_size) == (30, 4)
    assert found(archive(tmp_path / "b.npz")) is None


def test_of_a_folder(tmp_path: Path) -> None:
    folder(tmp_path / "images" / "train", 8)
    assert found(f"folder:{tmp_path / 'images'}") is None
    folder(tmp_path / "images" / "test", 6)
    tests = found(f"folder:{tmp_path / 'images'}")
    assert tests is not None
    assert (len(tests), tests.classes) == (6, ("a", "b"))


def test_test_images_that_were_trained_on_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forget_warnings()
    assert found(archive(tmp_path / "a.npz", x_test=IMAGES[60:], y_test=LABELS[60:])) is not None
    assert not caplog.records
    assert found(archive(tmp_path / "b.npz", x_test=IMAGES[55:], y_test=LABELS[55:])) is not None
    assert "5 of 35 test images are also training images" in caplog.text


def test_none() -> None:
    assert found("digits") is None
    assert found(ag.data.digits(limit=50)) is None


def test_given_ones(tmp_path: Path) -> None:
    name = archive(tmp_path / "a.npz", x_test=IMAGES[60:], y_test=LABELS[60:])
    other = tmp_path / "other.npz"
    np.savez(other, x=IMAGES[:12], y=LABELS[:12])
    for given, count in ((name, 30), (f"npz:{other}", 12), ((IMAGES[:9], LABELS[:9]), 9)):
        tests = found(name, given)
        assert tests is not None
        assert len(tests) == count
    fewer = found(name, (IMAGES[:4], np.array([0, 1, 0, 1])))  # not every class is in the test
    assert fewer is not None
    with pytest.raises(UserError, match=r"the test images 'npz:.*' are the training images; leave them out, or give"):
        found(f"npz:{other}", f"npz:{other}")


def test_those_that_do_not_fit(tmp_path: Path) -> None:
    name = archive(tmp_path / "a.npz", x_test=IMAGES[60:, :4, :4], y_test=LABELS[60:])
    with pytest.raises(UserError, match=r"the test images are 1×4×4 \(channels × height × width\), but .* image_size"):
        found(name)
    assert found(name, image_size=6) is not None
    more = archive(tmp_path / "b.npz", x_test=IMAGES[60:], y_test=np.arange(30) % 5)
    with pytest.raises(
        UserError, match=r"the test images have 5 classes and the training images 3; they differ in 3, 4"
    ):
        found(more)
    numbers = archive(tmp_path / "c.npz", x_test=IMAGES[60:], y_test=LABELS[60:] / 7)
    with pytest.raises(UserError, match=r"the test images have 0 classes and the training images 3"):
        found(numbers)


def test_sources_say_that_they_have_none(tmp_path: Path) -> None:
    import pandas

    table = tmp_path / "one.parquet"
    pandas.DataFrame({"image": [b""], "label": [0]}).to_parquet(table)
    (tmp_path / "parts").mkdir()
    pandas.DataFrame({"image": [b""], "label": [0]}).to_parquet(tmp_path / "parts" / "train-0.parquet")
    folder(tmp_path / "images", 4)
    names = ["digits", f"parquet:{table}", f"parquet:{tmp_path / 'parts'}", f"folder:{tmp_path / 'images'}"]
    for name in (*names, archive(tmp_path / "a.npz")):
        with pytest.raises(NoTestImagesError):
            data_room.load(name, train=False)


def test_the_result_has_them_and_a_resumed_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    archive(tmp_path / "a.npz", x_test=IMAGES[60:], y_test=LABELS[60:])
    options: dict[str, Any] = {**TINY, "limit": None, "epochs": 1, "preset": "cifar-darts"}
    for number, data in enumerate(("npz:a.npz", data_room.load("npz:a.npz"))):
        whole = ag.train("nasbench201", CELL, data, **options)
        assert whole.runs[0].heldout is None  # all images train
        assert list(whole.runs[0].test or {}) == ["loss", "accuracy"]
        assert whole.model.about["test"] == whole.runs[0].test
        home = tmp_path / str(number)
        with pytest.raises(SearchInterrupted):
            ag.train(
                "nasbench201", CELL, data, **options, test="npz:a.npz" if number == 0 else None, out=home,
                interruptible=True, callbacks=interrupting(0, 2),
            )  # fmt: skip
        plan = json.loads((home / "training.json").read_text())
        assert plan["test"] in (f"npz:{tmp_path}/a.npz", None)  # it can be resumed from any folder
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert_same_bits(whole, ag.resume(home))
        monkeypatch.chdir(tmp_path)


def test_wilson_interval() -> None:
    assert accuracy_interval(0, 10) == pytest.approx((0.0, 27.7533), abs=1e-3)
    assert accuracy_interval(10, 10) == pytest.approx((72.2467, 100.0), abs=1e-3)
