"""What one of several processes computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from derivatives import derivatives, hypergradients, node_derivatives, statistics
from searches import CASES, FURTHER, OF_THREE, found


def work(rank: int, size: int, folder: Path) -> None:
    """Compute everything as one of ``size`` processes, and store it in the folder."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    results: dict[str, Any] = {name: found(name) for name in ((*CASES, *FURTHER) if size == 2 else OF_THREE)}
    results |= {"derivatives": derivatives(), "statistics": statistics(), "local derivatives": derivatives(local=size)}
    results["hypergradients"] = hypergradients()
    results |= {f"node {by_image}": node_derivatives(by_image) for by_image in (False, True)}
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()
