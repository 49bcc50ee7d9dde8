"""A worker without PyTorch: it counts epochs in the run directory, and can fail or take its time as its name says.

``python stub_worker.py STUDY RUN``. Each epoch adds a line to ``metrics.jsonl`` and to ``work.txt``, which shows what
was computed twice. A variant named ``fails`` ends with a sentence, ``fails-once`` only the first time.
"""

from __future__ import annotations

import fcntl
import json
import os
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
        file.write("begun\n")
    variant = home.name.rpartition("-seed")[0]
    if variant == "fails" or (variant == "fails-once" and (home / "begun.txt").read_text().count("begun") == 1):
        sys.stderr.write("something is wrong; mend it.\n")
        return 2
    lines = (home / "metrics.jsonl").read_text().splitlines() if (home / "metrics.jsonl").exists() else []
    for epoch in range(len(lines) + 1, EPOCHS + 1):
        lines.append(json.dumps({"epoch": epoch, "seconds": 1.0, "genotype": None, "heldout_accuracy": 50.0 + epoch}))
        part = home / f"part-{os.getpid()}"
        part.write_text("\n".join(lines) + "\n")
        part.replace(home / "metrics.jsonl")
        with (home / "work.txt").open("a") as file:
            file.write(f"{epoch}\n")
    (home / "summary.json").write_text("{}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
