"""Measures of the architecture at the end of an epoch."""

from __future__ import annotations

import math
from statistics import mean

import torch

from archgrad.diagnostics.snapshot import Snapshot
from archgrad.discretizers import margins
from archgrad.spaces import SKIP

__all__ = ["entropy", "movement", "operations", "skip_connections"]


def entropy(snapshot: Snapshot) -> dict[str, float]:
    """Mean over the rows of −Σ p·log p in nats: log(choices) when undecided, 0 when decided (GAEA, Fig. 1).

    ``entropy_max`` is the mean of log(choices). ``lead`` is the mean difference of the probabilities of the picked
    choice and the next. Only operation weights count, not the edge weights that some supernets have.
    """
    blocks = snapshot.space.blocks
    rows = [torch.special.entr(snapshot.probabilities[block.name].double()).sum(-1) for block in blocks]
    most = mean(math.log(len(row.choices)) for block in blocks for row in block.rows)
    ahead = margins(snapshot.space, snapshot.probabilities)
    found = {"entropy": torch.cat(rows).mean().item(), "entropy_max": most}
    return found | ({"lead": mean(ahead)} if ahead else {})


def operations(snapshot: Snapshot) -> dict[str, float]:
    """Return the mean probability of each operation over the rows that offer it, as ``probability_NAME``."""
    weights: dict[str, list[float]] = {}
    for block in snapshot.space.blocks:
        for row, own in zip(block.rows, snapshot.probabilities[block.name].tolist(), strict=True):
            for choice, weight in zip(row.choices, own, strict=False):
                weights.setdefault(choice, []).append(weight)
    return {f"probability_{choice}": mean(found) for choice, found in weights.items()}


def skip_connections(snapshot: Snapshot) -> dict[str, float]:
    """Count the skip connections of the current genotype, which take over in a collapse.

    ``skips`` is their number, ``skip_share`` their share of all decisions, and ``skip_weight`` the mean probability of
    a skip connection over the rows that offer one. An undecided genotype is not counted.
    """
    skips, decisions = snapshot.genotype.count(SKIP), len(snapshot.genotype.decisions)
    measured: dict[str, float] = {"skips": skips, "skip_share": skips / decisions if decisions else 0.0}
    measured = {} if snapshot.undecided else measured
    weights = [
        snapshot.probabilities[block.name][row, offered.choices.index(SKIP)].item()
        for block in snapshot.space.blocks
        for row, offered in enumerate(block.rows)
        if SKIP in offered.choices
    ]
    return measured | ({"skip_weight": mean(weights)} if weights else {})


def movement(snapshot: Snapshot) -> dict[str, float]:
    """Measure Σ|p − p₀|, how far the operation weights have moved since the start (Λ-DARTS, Fig. 3)."""
    if snapshot.initial is None:
        return {}
    blocks = [block.name for block in snapshot.space.blocks]
    gone = [(snapshot.probabilities[name] - snapshot.initial[name]).double().abs().sum() for name in blocks]
    return {"movement": torch.stack(gone).sum().item()}
