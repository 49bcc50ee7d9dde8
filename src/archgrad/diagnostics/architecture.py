"""What is measured of the architecture at the end of every epoch."""

from __future__ import annotations

from statistics import mean

import torch

from archgrad.diagnostics.base import Snapshot
from archgrad.spaces import SKIP

__all__ = ["SKIP", "entropy", "movement", "skip_connections"]


def entropy(snapshot: Snapshot) -> dict[str, float]:
    """Mean over the rows of −Σ p·log p in nats: log(choices) when undecided, 0 when decided (GAEA, Fig. 1).

    Of operation weights only; weights of edges, where a supernet has them, are not counted.
    """
    weights = [snapshot.probabilities[block.name] for block in snapshot.space.blocks]
    rows = [torch.special.entr(block.double()).sum(-1) for block in weights]
    return {"entropy": torch.cat(rows).mean().item()}


def skip_connections(snapshot: Snapshot) -> dict[str, float]:
    """Count the skip connections of the current genotype, the sign of collapse.

    ``skips`` is their number, ``skip_share`` that of all its decisions, and ``skip_weight`` the mean probability of a
    skip connection over the rows that offer one.
    """
    skips, decisions = snapshot.genotype.count(SKIP), len(snapshot.genotype.decisions)
    measured: dict[str, float] = {"skips": skips, "skip_share": skips / decisions if decisions else 0.0}
    weights = [
        snapshot.probabilities[block.name][row, offered.choices.index(SKIP)].item()
        for block in snapshot.space.blocks
        for row, offered in enumerate(block.rows)
        if SKIP in offered.choices
    ]
    return measured | ({"skip_weight": mean(weights)} if weights else {})


def movement(snapshot: Snapshot) -> dict[str, float]:
    """Measure Σ|p − p₀|, how far the operation weights have gone since the search began (Λ-DARTS, Fig. 3)."""
    if snapshot.initial is None:
        return {}
    blocks = [block.name for block in snapshot.space.blocks]
    gone = [(snapshot.probabilities[name] - snapshot.initial[name]).double().abs().sum() for name in blocks]
    return {"movement": torch.stack(gone).sum().item()}
