"""What one of several processes computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from derivatives import derivatives, statistics
from searches import CASES, FURTHER, OF_THREE, found

from archgrad.distributed.processes import joined


def work(rank: int, size: int, folder: Path) -> None:
    """Compute everything as one of ``size`` processes, and store it in the folder."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    results: dict[str, Any] = {name: found(name) for name in ((*CASES, *FURTHER) if size == 2 else OF_THREE)}
    with joined("cpu"):
        results["derivatives"], results["statistics"] = derivatives(), statistics()
        results["local derivatives"] = derivatives(local=size)
    results["derivatives without sockets"] = derivatives()
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()
