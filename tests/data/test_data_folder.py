"""Folders with one sub-folder of image files per class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import Image, pixels, write_folder
from PIL import ImageOps

from archgrad.data import folder, load
from archgrad.data.catalog import absolute_name
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
        folder(tmp_path, strict=True)
    with pytest.raises(UserError, match=r"has no images of 1 of its 2 classes \(b\)"):
        folder(tmp_path)
    with pytest.raises(UserError, match="there is no folder at"):
        folder(tmp_path / "a" / "1.png")


def test_what_is_not_read_is_counted_and_named(tmp_path: Path, said: list[str]) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2), "b/nested/2.png": pixels(3)})
    for name in ("a/notes.txt", "a/.DS_Store", "b/photo.heic", "b/bad-\udcff\x1b[1m"):
        (tmp_path / name).write_text("x")
    assert len(folder(tmp_path)) == 2
    assert said == [
        "left out, because they are no images (4): 'notes.txt', 'nested', 'bad-\\udcff\\x1b[1m', 'photo.heic'."
    ]


@pytest.mark.parametrize("parts", [("train", "val", "test"), ("", "test"), ("train", "more")])
def test_folders_that_are_in_no_part_are_named(parts: tuple[str, ...], tmp_path: Path, said: list[str]) -> None:
    home = tmp_path / "animals"
    for part in parts:
        write_folder(home / part, {"cat/1.png": pixels(1), "dog/1.png": pixels(2)})
    assert folder(home).classes == ("cat", "dog")
    assert ["'more'" in line for line in said] == ([True] if "more" in parts else [])


@pytest.mark.parametrize("in_memory", [True, False], ids=["in-memory", "lazy"])
def test_a_few_broken_files_are_left_out_and_named(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    if not in_memory:
        monkeypatch.setattr("archgrad.data.sources.encoded.MOST_IN_MEMORY", 0)
    write_folder(tmp_path, {f"{label}/{number}.png": pixels(number) for label in "ab" for number in range(10)})
    whole = (tmp_path / "a" / "3.png").read_bytes()
    (tmp_path / "a" / "3.png").write_bytes(whole[: len(whole) // 2])
    data = folder(tmp_path)
    images = data.read(torch.arange(len(data)))
    assert data.targets.tolist() == [0] * (9 if in_memory else 10) + [1] * 10
    assert data.select(torch.tensor([3, len(data) - 1])).file_of(1) == "b/9.png"
    assert data.file_of(3) == ("a/4.png" if in_memory else "a/3.png")
    assert torch.equal(images[3], images[3 if in_memory else 4])
    assert torch.equal(images[-10:], images[[0, 1, 2, -7, *range(3 if in_memory else 4, 9 if in_memory else 10)]])
    assert len(said) == 1
    assert all(word in said[0] for word in ("1 of 20 images", "a/3.png", "--strict"))
    with pytest.raises(UserError, match=r"a/3\.png' cannot be read"):
        folder(tmp_path, strict=True).read(torch.tensor([3]))
    (tmp_path / "b" / "3.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"at least 2 of 20 images .*a/3\.png'.*b/3\.png'.* at most 5 %"):
        folder(tmp_path).read(torch.arange(20))


@pytest.mark.parametrize(("held", "large"), [(held, held in (1, 6)) for held in range(1, 9)])
def test_photos_are_turned_as_exif_says(
    held: int, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archgrad.data.sources.decode._LARGE", 100 if large else 1 << 22)
    exif = Image.Exif()
    exif[0x0112] = held
    for label in "ab":
        for place in ("stored", "upright"):
            (tmp_path / place / label).mkdir(parents=True)
        Image.fromarray(pixels(1, 24, 16)).save(tmp_path / "stored" / label / "1.png", exif=exif)
        with Image.open(tmp_path / "stored" / label / "1.png") as stored:
            upright = ImageOps.exif_transpose(stored)
        Image.fromarray(np.asarray(upright)).save(tmp_path / "upright" / label / "1.png")
    read, expected = (folder(tmp_path / name, image_size=4 if large else None) for name in ("stored", "upright"))
    assert torch.equal(read.images, expected.images)


def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    data = folder(write_folder(tmp_path / "x-\udcff", {"a-\udcfe/1.png": pixels(1), "b/1.png": pixels(2)}))
    assert (data.name, data.classes) == ("folder:x-\\xff", ("a-\\xfe", "b"))
    assert data.origin is not None


def test_pipes_and_folders_without_permission_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2)})
    os.mkfifo(tmp_path / "a" / "2.png")
    with pytest.raises(UserError, match=r"the image '.*2\.png' is a pipe"):
        folder(tmp_path, strict=True)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match=r"the folder .* cannot be read \(Permission denied\)"):
        folder(tmp_path)


def test_a_path_alone_names_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "photos", {"a/1.png": pixels(1), "b/1.png": pixels(2)})
    monkeypatch.chdir(tmp_path)
    assert len(load("photos")) == 2
    assert absolute_name("photos") == f"folder:{tmp_path.resolve()}/photos"
