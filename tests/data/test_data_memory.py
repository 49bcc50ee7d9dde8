"""Folders and parquet files that do not fit into memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from image_files import pixels, png, write_parquet

CHECK = """
import resource, sys
from pathlib import Path
import torch
from archgrad.data import Augmentation, Loader, load, measure
import PIL.Image, pyarrow.parquet

def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize:") + (400 << 20),) * 2)  # threads of Arrow reserve addresses
before = memory("VmRSS:")
data = load(sys.argv[1], image_size=64)
size = len(data) * 3 * 64 * 64
loader = Loader(data, torch.arange(len(data)), 64, measure(data), data.augmentation)
assert loader.batch(0).inputs.shape == (64, 3, 64, 64)
assert data.lazy and len(data.digest()) == 16
used = memory("VmHWM:") - before
print(len(data), size >> 20, used >> 20)
assert size > 240 << 20 and used < 100 << 20, (size, used)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the memory report of Linux")
@pytest.mark.parametrize("source", ["folder", "parquet"])
def test_twenty_thousand_images_take_little_memory(source: str, tmp_path: Path) -> None:
    count = 22_000
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
