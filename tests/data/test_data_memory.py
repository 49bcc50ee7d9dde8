"""Folders and parquet files that do not fit into memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from image_files import pixels, png, write_folder, write_parquet

from archgrad.data import folder
from archgrad.errors import UserError

CHECK = """
import resource, sys
from pathlib import Path
import torch
from archgrad.data import Augmentation, Loader, load, measure
import PIL.Image, pyarrow.parquet

def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

if sys.argv[1].startswith("folder"):  # Arrow reserves more addresses than it uses
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize:") + (200 << 20),) * 2)
before = memory("VmRSS:")
data = load(sys.argv[1], image_size=128)
size = len(data) * 3 * 128 * 128
loader = Loader(data, torch.arange(len(data)), 64, measure(data), data.augmentation)
assert loader.batch(0).inputs.shape == (64, 3, 128, 128)
assert data.lazy and len(data.digest()) == 16
used = memory("VmHWM:") - before
print(f"{len(data)} images, {size >> 20} MB decoded, {used >> 20} MB used")
assert size > 240 << 20 and used < 150 << 20, (size, used)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the memory report of Linux")
@pytest.mark.parametrize("source", ["folder", "parquet"])
def test_images_beyond_the_limit_take_little_memory(source: str, tmp_path: Path) -> None:
    count = 6_000
    encoded = [png(pixels(number, 16, 16)) for number in range(10)]
    if source == "folder":
        for label in ("a", "b"):
            (tmp_path / label).mkdir()
            for number, content in enumerate(encoded):
                (tmp_path / label / f"first-{number}.png").write_bytes(content)
            for number in range(10, count // 2):
                os.link(tmp_path / label / f"first-{number % 10}.png", tmp_path / label / f"{number}.png")
    else:
        write_parquet(tmp_path / "a.parquet", count, encoded=encoded * (count // 10))
    path = tmp_path if source == "folder" else tmp_path / "a.parquet"
    run = subprocess.run(
        [sys.executable, "-c", CHECK, f"{source}:{path}"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{count} ")
    sys.stdout.write(f"\n{source}: {run.stdout}")  # for pytest -s


def test_what_a_sample_does_not_tell_is_told_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr("archgrad.data.sources.encoded.MOST_IN_MEMORY", 0)
    monkeypatch.setattr("archgrad.data.sources.encoded._LOOKED_AT", 2)
    gray = {f"{label}/{number}.png": pixels(number, channels=1) for label in "ab" for number in range(4)}
    data = folder(write_folder(tmp_path, gray))
    assert data.shape == (1, 8, 8)
    digest = data.digest()
    write_folder(tmp_path, {"a/2.png": pixels(2), "b/1.png": pixels(1, 9, 8, channels=1)})
    (tmp_path / "b" / "2.png").write_bytes(b"no image")
    luminance = pixels(2) @ [0.299, 0.587, 0.114]
    assert (data.read(torch.tensor([2]))[0, 0] - torch.from_numpy(luminance)).abs().max() <= 1
    assert said == ["some images have color, but the first ones are gray: all become gray."]
    with pytest.raises(UserError, match=r"b/1.png' has 9×8 pixels and the others 8×8; resize .* --image-size 8"):
        data.read(torch.tensor([5]))
    assert torch.equal(data.read(torch.tensor([6])), data.read(torch.tensor([7])))
    assert "b/2.png" in said[-1]
    (tmp_path / "b" / "2.png").unlink()
    assert torch.equal(data.read(torch.tensor([6])), data.read(torch.tensor([7])))
    assert data.digest() == digest
    assert folder(tmp_path).digest() != digest
