"""What every source does, and data by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_files import STACK, Y, pixels, png, write_folder, write_parquet
from test_data_imagenet16 import write_imagenet16

from archgrad.data import SOURCES, DataSource, ImageData, LoadOptions, digits, load
from archgrad.errors import UserError


def write_npz(root: Path) -> str:
    np.savez(root / "a.npz", x=np.concatenate([STACK] * 3), y=np.concatenate([Y] * 3))
    return f"npz:{root / 'a.npz'}"


def write_images(root: Path) -> str:
    return f"folder:{write_folder(root, {f'{number % 2}/{number}.png': pixels(number) for number in range(24)})}"


def write_cifar(root: Path, classes: int, name: str) -> str:
    (root / name).mkdir()
    count, label = 3 * classes, [number % classes for number in range(3 * classes)]
    encoded = [png(pixels(number, 32, 32)) for number in range(count)]
    write_parquet(root / name / "train.parquet", count, encoded=encoded, labels=label)
    return name


MEMBERS: dict[str, Callable[[Path], str]] = {
    "digits": lambda root: "digits",
    "cifar10": lambda root: write_cifar(root, 10, "cifar10"),
    "cifar100": lambda root: write_cifar(root, 100, "cifar100"),
    "imagenet16": lambda root: f"imagenet16:{write_imagenet16(root)}",
    "parquet": lambda root: f"parquet:{write_parquet(root / 'a.parquet', 24)}",
    "folder": write_images,
    "npz": write_npz,
}
"""How to write the data of each source into an empty folder; returns its name."""


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_limits_resizes_and_loads_again(name: str, tmp_path: Path) -> None:
    spec = MEMBERS[name](tmp_path)
    whole = load(spec, data_dir=tmp_path)
    count = 2 * whole.num_classes
    some = load(spec, data_dir=tmp_path, limit=count, image_size=4, seed=2)
    expected = whole.limited(count, 2).resized(4)
    assert torch.equal(some.images, expected.images)
    assert torch.equal(some.labels, expected.labels)
    assert some.augmentation == expected.augmentation
    assert some.origin is not None
    assert (some.origin.spec, some.origin.options.limit, some.origin.options.seed) == (spec, count, 2)
    assert (some.origin.folder is None) == SOURCES.create(name).takes_path


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "digits"])
def test_every_source_rejects_a_path_without_data(name: str, tmp_path: Path) -> None:
    source: DataSource = SOURCES.create(name)
    for attempt in (source, source.check):
        with pytest.raises(UserError, match=r"there is no .* at .*absent'; check the path"):
            attempt(tmp_path / "absent")  # type: ignore[operator]


def test_digits() -> None:
    data = digits()
    assert data.images.shape == (1797, 1, 8, 8)
    assert (int(data.images.min()), int(data.images.max())) == (0, 255)
    assert data.augmentation.crop_padding == 1
    assert not data.augmentation.flip
    with pytest.raises(UserError, match="no test images"):
        load("digits", train=False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifar", "did you mean 'cifar10'"),
        ("digit", "did you mean 'digits'"),
        ("folders:x", "did you mean 'folder:PATH'"),
        ("parquet", "has no path; write parquet:PATH"),
        ("npz:", "has no path; write npz:PATH"),
        ("digits:x", "takes no path"),
        ("folder:/absent/really", "no folder at"),
        ("folders:/absent/really", "did you mean 'folder:PATH'"),
        ("json:absent", "json:absent cannot be imported"),
        ("json:JSONDecoder", "json:JSONDecoder is no data: it must be a subclass of archgrad.data:DataSource"),
        ("archgrad.data:DataSource", "archgrad.data:DataSource cannot be made .*abstract"),
        ("__main__:Own", "unknown data|cannot be imported"),
        ("x:y:z:PATH", "unknown data"),
        (":", "unknown data"),
        ("n" * 1000, "unknown data 'n*…'"),
        ("digits:" + "n" * 1000, "takes no path, but 'digits:n*…"),
        ("", "unknown data"),
    ],
)
def test_load_mistakes(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(spec)


@pytest.mark.parametrize("options", [{"limit": 0}, {"image_size": 0}, {"image_size": 2.5}, {"resize": "fill"}])
def test_wrong_options_are_refused_before_anything_is_read(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))}"):
        load("npz:absent", **options)


def test_a_source_that_returns_something_else_is_named() -> None:
    class Wrong(DataSource):
        def read(self, path: Path | None, options: LoadOptions) -> ImageData:
            return None  # type: ignore[return-value]

    with pytest.raises(UserError, match=r"Wrong\.read returned None; it must return an ImageData"):
        Wrong()()


def test_other_images_are_not_cifar(tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    write_parquet(tmp_path / "cifar10" / "train.parquet", labels=[number % 10 for number in range(12)])
    with pytest.raises(UserError, match="is not CIFAR-10"):
        load("cifar10", data_dir=tmp_path)


def test_importing_is_light() -> None:
    code = "import sys, archgrad.data; sys.exit(any(name in sys.modules for name in ('pyarrow', 'PIL', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
