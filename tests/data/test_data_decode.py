"""Large and hostile images."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import Image, pixels, write_folder
from spying import spied

from archgrad.data import digits, folder
from archgrad.data.sources import decode
from archgrad.errors import UserError


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take images of more than 32×32 pixels for large ones; return the pixels of each piece that is converted."""
    monkeypatch.setattr(decode, "_LARGE", 1 << 10)
    monkeypatch.setattr(decode, "_STRIP_PIXELS", 1 << 11)
    return spied(monkeypatch, decode, "_array", lambda image: image.width * image.height)


def smooth(height: int, width: int, channels: int = 3) -> np.ndarray:
    ramp = np.add.outer(np.arange(height) * 100 // height, np.arange(width) * 100 // width).astype(np.uint8)
    return ramp if channels == 1 else np.stack([ramp, ramp[::-1], ramp[:, ::-1]], 2)


@pytest.mark.parametrize(
    ("mode", "suffix"), [("RGB", "png"), ("P", "png"), ("L", "png"), ("I;16", "tiff"), ("RGB", "jpg"), ("RGBA", "webp")]
)
def test_large_images_shrink_in_strips(mode: str, suffix: str, tmp_path: Path, small_limits: list[int]) -> None:
    whole = smooth(250, 340, 1 if mode in ("L", "I;16") else 3)
    image = Image.fromarray(whole.astype(np.uint16) * 256 if mode == "I;16" else whole)
    for name in "ab":
        (tmp_path / name).mkdir()
        (image if mode == "I;16" else image.convert(mode)).save(tmp_path / name / f"1.{suffix}")
    found = folder(tmp_path, image_size=8, resize="stretch").images
    assert max(small_limits) <= 1 << 13
    exact = torch.from_numpy(whole).view(250, 340, -1).permute(2, 0, 1)[None]
    assert (found[:1].int() - decode.resize(exact, 8, "stretch").int()).abs().max() <= (60 if mode == "P" else 6)


def test_images_of_usual_sizes_are_resized_exactly(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1, 300, 300), "b/1.png": pixels(2, 300, 300)})
    assert torch.equal(folder(tmp_path, image_size=7).images, folder(tmp_path).resized(7).images)


def test_large_images_need_a_size(tmp_path: Path, small_limits: list[int]) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1, 40, 40), "b/1.png": pixels(2, 40, 40)})
    with pytest.raises(UserError, match=r"a/1\.png' has 40×40 pixels; .* with --image-size"):
        folder(tmp_path)


def header_only(width: int, height: int) -> bytes:
    """Return a PNG file that claims a size and has no pixels."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"")),
        (b"IEND", b""),
    ]
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("size", [(9500, 9500), (2**31 - 1, 2**31 - 1)])
def test_decompression_bombs_are_refused_by_name(size: tuple[int, int], tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2)})
    (tmp_path / "b" / "bomb.png").write_bytes(header_only(*size))
    with pytest.raises(UserError, match=r"b/bomb\.png' cannot be read .* at most 89478485 pixels"):
        folder(tmp_path, image_size=8, strict=True)


def test_pixels_that_are_no_bytes_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2)})
    for array, reason in ((np.full((8, 8), 0.5, np.float32), "floating-point"), (np.full((8, 8), 1 << 20), "16 bits")):
        Image.fromarray(array.astype(np.int32) if reason == "16 bits" else array).save(tmp_path / "b" / "2.tiff")
        with pytest.raises(UserError, match=rf"b/2\.tiff' cannot be read \(its pixels .*{reason}"):
            folder(tmp_path, strict=True)


def test_more_than_the_memory_holds_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1, channels=1), "b/1.png": pixels(2, channels=1)})
    with pytest.raises(UserError, match=r"would take .* GB .* are free; use fewer .*--image-size"):
        folder(tmp_path, image_size=10**6)
    with pytest.raises(UserError, match="would take"):
        digits(image_size=10**6)
