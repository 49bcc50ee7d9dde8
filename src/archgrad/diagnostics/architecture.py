"""What is measured of the architecture at the end of every epoch."""

from __future__ import annotations

import torch

from archgrad.diagnostics.base import Snapshot

__all__ = ["entropy", "skip_connections"]

SKIP = "skip_connect"


def entropy(snapshot: Snapshot) -> dict[str, float]:
    """Mean over the rows of −Σ p·log p in nats: log(choices) when undecided, 0 when decided (GAEA, Fig. 1).

    Of operation weights only; weights of edges, where a supernet has them, are not counted.
    """
    weights = [snapshot.probabilities[block.name] for block in snapshot.space.blocks]
    rows = [torch.special.entr(block.double()).sum(-1) for block in weights]
    return {"entropy": torch.cat(rows).mean().item()}


def skip_connections(snapshot: Snapshot) -> dict[str, float]:
    """Count the skip connections of the current genotype, the sign of collapse."""
    return {"skips": snapshot.genotype.count(SKIP)}
