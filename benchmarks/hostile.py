"""What hostile files and absurd sizes take: the exit code, the seconds and the peak memory of the command's answer.

Each case runs in a process of its own, in an empty folder. ``import`` is a command that only loads PyTorch, for
comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

Case = tuple[Callable[[], object], Sequence[str]]
TINY = ("--channels", "2", "--cells", "1", "--limit", "40", "--batch-size", "10", "--epochs", "1", "--threads", "1")


def main() -> None:
    """Run every case and print its row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="store the rows in this file")
    given, rows = parser.parse_args(), []
    print(f"{'case':<28}{'exit':>5}{'seconds':>9}{'peak MB':>9}  answer")
    for name, (prepare, arguments) in CASES.items():
        row = measured(name, prepare, arguments)
        rows.append(row)
        print(f"{name:<28}{row['exit']:>5}{row['seconds']:>9.1f}{row['peak_mb']:>9.0f}  {row['answer'][:110]}")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def measured(name: str, prepare: Callable[[], object], arguments: Sequence[str]) -> dict[str, object]:
    """Run one command line in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        began = time.perf_counter()
        command = [sys.executable, "-c", WATCHED, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        seconds, peak = time.perf_counter() - began, int(Path("peak").read_text(encoding="ascii")) / 1024
        os.chdir("/")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")] or lines[-1:]
    answer = errors[0] if errors else ""
    return {"case": name, "exit": done.returncode, "seconds": seconds, "peak_mb": peak, "answer": answer}


WATCHED = """
import atexit, pathlib, re
place = pathlib.Path("peak").absolute()

def tell():
    status = pathlib.Path("/proc/self/status").read_text()
    place.write_text(re.search(r"VmHWM:\\s*(\\d+)", status)[1])

atexit.register(tell)
from archgrad.cli import main
main()
"""
"""The command, in a process that writes its own peak memory in KB to a file when it ends."""


def large_images() -> None:
    """Write six PNG files of 8000 × 8000 pixels, 210 KB in all."""
    from PIL import Image

    for index in range(6):
        place = Path("images") / f"class{index % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("P", (8000, 8000), index).save(place / f"{index}.png")


def packed_zeros() -> None:
    """Write an archive whose images unpack to 8 GB."""
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "|u1", "fortran_order": False, "shape": (8 * 2**20, 1, 32, 32)}
            )
            for _ in range(64):
                file.write(bytes(2**20))
        np.save("labels.npy", np.zeros(4, dtype=np.int64))
        archive.write("labels.npy")


def huge_file() -> None:
    """Make a sparse file of a terabyte."""
    with Path("huge.toml").open("wb") as file:
        file.truncate(2**40)


def text(name: str, content: str) -> Callable[[], object]:
    """Return what writes a text file."""
    return lambda: Path(name).write_text(content, encoding="utf-8")


def nothing() -> None:
    """Prepare nothing."""


CONFIG = ("search", "--config")
CASES: dict[str, Case] = {
    "import": (nothing, ("list", "spaces")),
    "six images of 8000 × 8000": (large_images, ("search", *TINY[:4], "--data", "folder:images", "--image-size", "32",
                                                 "--batch-size", "2", "--epochs", "1", "--held-out", "0", "--threads",
                                                 "1", "--alpha-budget", "off")),
    "an archive of 8 GB": (packed_zeros, ("search", *TINY, "--data", "npz:bomb.npz")),
    "a pipe as data": (lambda: os.mkfifo("pipe"), ("search", *TINY, "--data", "npz:pipe")),
    "a device as data": (nothing, ("search", *TINY, "--data", "npz:/dev/zero")),
    "a pipe as configuration": (lambda: os.mkfifo("pipe"), (*CONFIG, "pipe")),
    "a terabyte of configuration": (huge_file, (*CONFIG, "huge.toml")),
    "TOML nested 2,000 deep": (text("deep.toml", f"a = {'[' * 2000}{']' * 2000}\n"), (*CONFIG, "deep.toml")),
    "a number of 5,000 digits": (text("long.toml", f"epochs = {'9' * 5000}\n"), (*CONFIG, "long.toml")),
    "--epochs 10^9": (nothing, ("search", *TINY, "--epochs", str(10**9))),
    "--cells 10^6": (nothing, ("search", *TINY, "--cells", str(10**6))),
    "--channels 10^4": (nothing, ("search", *TINY, "--channels", str(10**4))),
    "--threads 10^5": (nothing, ("search", *TINY, "--threads", str(10**5))),
    "--image-size 10^5": (nothing, ("search", *TINY, "--image-size", str(10**5))),
    "--batch-size 10^9": (nothing, ("search", *TINY, "--batch-size", str(10**9))),
    "10^9 terms": (nothing, ("search", *TINY, "--method", "idarts", "--set", f"hypergradient.terms={10**9}")),
}  # fmt: skip

if __name__ == "__main__":
    main()
