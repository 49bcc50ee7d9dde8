"""A worker without PyTorch: it counts epochs in the run directory, and can fail or take its time as its name says.

``python stub_worker.py STUDY RUN``. Each epoch adds a line to ``metrics.jsonl`` and to ``work.txt``, which shows what
was computed twice. A variant named ``fails`` ends with a sentence, ``fails-once`` only the first time, and ``waits``
waits after its first epoch for a file ``go`` in the study; when it is stopped, it adds a line to ``stopped.txt``.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
from pathlib import Path

EPOCHS = 3


def main() -> int:
    home = Path(sys.argv[1]) / sys.argv[2]
    home.mkdir(parents=True, exist_ok=True)
    lock = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 75
    with (home / "begun.txt").open("a") as file:
        file.write(f"begun {os.getpid()}\n")
    variant = home.name.rpartition("-seed")[0]
    if variant == "fails" or (variant == "fails-once" and (home / "begun.txt").read_text().count("begun") == 1):
        sys.stderr.write("something is wrong; mend it.\n")
        return 2
    lines = (home / "metrics.jsonl").read_text().splitlines() if (home / "metrics.jsonl").exists() else []
    for epoch in range(len(lines) + 1, EPOCHS + 1):
        if variant == "waits" and epoch == 2 and not _may_go(Path(sys.argv[1])):
            with (home / "stopped.txt").open("a") as file:
                file.write("stopped\n")
            return 143
        lines.append(json.dumps({"epoch": epoch, "seconds": 1.0, "genotype": None, "heldout_accuracy": 50.0 + epoch}))
        part = home / f"part-{os.getpid()}"
        part.write_text("\n".join(lines) + "\n")
        part.replace(home / "metrics.jsonl")
        with (home / "work.txt").open("a") as file:
            file.write(f"{epoch}\n")
    (home / "summary.json").write_text("{}")
    return 0


def _may_go(study: Path) -> bool:
    """Wait for the file ``go``; return False if standard input closes or SIGTERM comes before."""
    asked, told = os.pipe()
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(told, b"x"))
    if hasattr(signal, "SIGUSR2"):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    while not (study / "go").exists():
        if select.select([0, asked], [], [], 0.02)[0]:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
