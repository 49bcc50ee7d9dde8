"""One of several processes: its arguments are its number, how many there are, and a folder for what it finds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from derivatives import derivatives, statistics
from searches import CASES, FURTHER, found

from archgrad.distributed.processes import joined


def main(rank: int, size: int, folder: Path) -> None:
    """Compute everything, and store it."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    results: dict[str, Any] = {name: found(name) for name in (*CASES, *(FURTHER if size == 2 else ()))}
    with joined("cpu"):
        results["derivatives"], results["statistics"] = derivatives(), statistics()
        results["local derivatives"] = derivatives(local=size)
    results["derivatives without sockets"] = derivatives()
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
