"""Folders with one sub-folder of image files per class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import Image, pixels, write_folder

from archgrad.data import folder
from archgrad.errors import UserError


def test_folder(tmp_path: Path) -> None:
    arrays = {f"{label}/{number}.png": pixels(number) for label in ("dog", "cat") for number in range(3)}
    write_folder(tmp_path, arrays)
    (tmp_path / "cat" / "notes.txt").write_text("ignored")
    (tmp_path / ".hidden").mkdir()
    data = folder(tmp_path)
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(data.images[4].numpy(), pixels(1).transpose(2, 0, 1))
    assert torch.equal(folder(tmp_path, limit=4, image_size=4).images, data.limited(4, 0).resized(4).images)


@pytest.mark.parametrize(
    "suffix", ["png", "jpg", "jpeg", "bmp", "gif", "webp", "tiff", "tif", "ppm", "jp2", "tga", "PNG"]
)
def test_folder_formats(tmp_path: Path, suffix: str) -> None:
    flat = np.full((8, 8, 3), 128, np.uint8)
    data = folder(write_folder(tmp_path, {f"a/1.{suffix}": flat, f"b/2.{suffix}": flat}))
    assert data.images.shape == (2, 3, 8, 8)
    assert (data.images.int() - 128).abs().max() <= 4


def test_folder_channels(tmp_path: Path) -> None:
    gray = write_folder(tmp_path / "gray", {"a/1.png": pixels(1, channels=1), "b/1.png": pixels(2, channels=1)})
    assert folder(gray).images.shape == (2, 1, 8, 8)
    assert not folder(gray).augmentation.flip
    mixed = write_folder(tmp_path / "mixed", {"a/1.png": pixels(1, channels=1), "b/1.png": pixels(2, channels=4)})
    images = folder(mixed).images
    assert torch.equal(images[0, 0], images[0, 2])
    assert np.array_equal(images[1].numpy(), pixels(2, channels=4)[:, :, :3].transpose(2, 0, 1))


def test_folder_modes(tmp_path: Path) -> None:
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024
    write_folder(tmp_path, {"a/1.png": deep, "b/1.png": deep.astype(np.uint8)})
    assert np.array_equal(folder(tmp_path).images[0, 0].numpy(), deep >> 8)
    palette = Image.fromarray(pixels(3)).convert("P")
    palette.save(tmp_path / "b" / "2.png", transparency=b"\x00\x80\xff")
    assert folder(tmp_path).channels == 3


def test_folder_mixed_sizes(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2, 12, 16), "b/2.png": pixels(3, channels=1)})
    with pytest.raises(UserError, match=r"sizes, from 8×8 .*a/1\.png'\) to 12×16 .*b/1\.png'\); .* --image-size 8, "):
        folder(tmp_path)
    write_folder(tmp_path, {"b/9.png": pixels(3, 20, 5)})
    with pytest.raises(UserError, match=r"from 8×8 .* to 12×16 .* --image-size 5, the shortest side of all"):
        folder(tmp_path)
    assert folder(tmp_path, image_size=4).images.shape == (4, 3, 4, 4)


def test_folder_with_parts(tmp_path: Path) -> None:
    for part in ("train", "test"):
        write_folder(tmp_path, {f"{part}/a/1.png": pixels(1), f"{part}/b/1.png": pixels(2)})
    assert folder(tmp_path).classes == folder(tmp_path, train=False).classes == ("a", "b")
    trains = write_folder(tmp_path / "vehicles", {"bus/1.png": pixels(1), "train/1.png": pixels(2)})
    assert folder(trains).classes == ("bus", "train")
    with pytest.raises(UserError, match="has no sub-folder test or val"):
        folder(trains, train=False)


def test_folder_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder at"):
        folder(tmp_path / "absent")
    with pytest.raises(UserError, match="has 0 sub-folders for classes; give at least 2"):
        folder(tmp_path)
    write_folder(tmp_path, {"a/1.png": pixels(1)})
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="b' has no images"):
        folder(tmp_path)
    (tmp_path / "b" / "broken.jpg").write_bytes(b"\xff\xd8 not really")
    with pytest.raises(UserError, match=r"broken\.jpg' cannot be read"):
        folder(tmp_path)
    with pytest.raises(UserError, match="there is no folder at"):
        folder(tmp_path / "a" / "1.png")


def test_what_is_not_read_is_counted_and_named(tmp_path: Path, said: list[str]) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2), "b/nested/2.png": pixels(3)})
    for name in ("a/notes.txt", "a/.DS_Store", "b/photo.heic", "b/bad-\udcff\x1b[1m"):
        (tmp_path / name).write_text("x")
    assert len(folder(tmp_path)) == 2
    assert said == [
        "4 files or folders beside the images are left out: 'notes.txt', 'nested', 'bad-\\udcff\\x1b[1m', 'photo.heic'."
    ]


@pytest.mark.parametrize("parts", [("train", "val", "test"), ("", "test")])
def test_parts_that_a_search_does_not_use_are_named(parts: tuple[str, ...], tmp_path: Path, said: list[str]) -> None:
    home = tmp_path / "animals"
    for part in parts:
        write_folder(home / part, {"cat/1.png": pixels(1), "dog/1.png": pixels(2)})
    assert folder(home).classes == ("cat", "dog")
    unused = "'test', 'val'" if "val" in parts else "'test'"
    assert said == [f"a search does not use the images in {unused} of '{home}'."]


def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    data = folder(write_folder(tmp_path / "x-\udcff", {"a-\udcfe/1.png": pixels(1), "b/1.png": pixels(2)}))
    assert (data.name, data.classes) == ("folder:x-\\xff", ("a-\\xfe", "b"))
    assert data.origin is not None


def test_pipes_and_folders_without_permission_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2)})
    os.mkfifo(tmp_path / "a" / "2.png")
    with pytest.raises(UserError, match=r"the image '.*2\.png' is a pipe"):
        folder(tmp_path)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match=r"the folder .* cannot be read \(Permission denied\)"):
        folder(tmp_path)
