"""What is measured at the end of every epoch: small functions from a snapshot of the search to named numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.spaces import Genotype, SearchSpace

__all__ = ["Diagnostic", "Snapshot", "entropy", "skip_connections", "standard"]

SKIP = "skip_connect"


@dataclass(frozen=True)
class Snapshot:
    """The search between two epochs: probabilities ``{block: [rows, choices]}`` and the genotype they give."""

    space: SearchSpace
    probabilities: Mapping[str, Tensor]
    genotype: Genotype


Diagnostic = Callable[[Snapshot], Mapping[str, float]]


def entropy(snapshot: Snapshot) -> dict[str, float]:
    """Mean over all rows of −Σ p·log p in nats: log(choices) when undecided, 0 when decided (GAEA, Fig. 1)."""
    rows = [torch.special.entr(weights.double()).sum(-1) for weights in snapshot.probabilities.values()]
    return {"entropy": torch.cat(rows).mean().item()}


def skip_connections(snapshot: Snapshot) -> dict[str, float]:
    """Count the skip connections of the current genotype, the sign of collapse."""
    return {"skips": snapshot.genotype.count(SKIP)}


def standard() -> tuple[Diagnostic, ...]:
    """Return what every search measures."""
    return entropy, skip_connections
