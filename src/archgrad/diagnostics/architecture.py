"""The architecture at the end of an epoch as callbacks see it, and its measures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture, Probabilities
from archgrad.discretizers import SupernetEvaluation, margins
from archgrad.discretizers.base import options_with
from archgrad.errors import UserError
from archgrad.relaxations import expand_to_cells
from archgrad.spaces import SKIP, Genotype, SearchSpace
from archgrad.system.devices import widened

__all__ = ["Snapshot", "entropy", "measure_discretization", "movement", "operations", "skip_connections"]


@dataclass(frozen=True)
class Snapshot:
    """The search between two epochs: probabilities ``{block: [rows, choices]}`` and their genotype.

    ``evaluation`` measures the main metric of the shared weights with any mixture. ``last``: the search is complete.
    ``initial`` are the probabilities at its start. ``ties`` counts the rows whose choices tie exactly. ``undecided``:
    all rows tie, or α has not moved yet, so nothing has chosen the genotype. ``on_simplex``: each row sums to one.
    """

    space: SearchSpace
    probabilities: Probabilities
    genotype: Genotype
    evaluation: SupernetEvaluation | None = None
    last: bool = False
    initial: Mapping[str, Tensor] | None = None
    undecided: bool = False
    ties: int = 0
    on_simplex: bool = True


def entropy(snapshot: Snapshot) -> dict[str, float]:
    """Mean over the rows of −Σ p·log p in nats: log(choices) when undecided, 0 when decided (GAEA, Fig. 1).

    ``entropy_max`` is the mean of log(choices). ``lead`` is the mean difference of the probabilities of the picked
    choice and the next. Only operation weights count, not the edge weights that some supernets have. Rows that do not
    sum to one have no entropy; then only ``lead`` is returned.
    """
    blocks = snapshot.space.blocks
    ahead = margins(snapshot.space, snapshot.probabilities)
    lead = {"lead": mean(ahead)} if ahead else {}
    if not snapshot.on_simplex:
        return lead
    rows = [torch.special.entr(widened(snapshot.probabilities[block.name])).sum(-1) for block in blocks]
    most = mean(math.log(len(row.choices)) for block in blocks for row in block.rows)
    return {"entropy": torch.cat(rows).mean().item(), "entropy_max": most} | lead


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
    gone = [widened(snapshot.probabilities[name] - snapshot.initial[name]).abs().sum() for name in blocks]
    return {"movement": torch.stack(gone).sum().item()}


def measure_discretization(snapshot: Snapshot, batches: int) -> dict[str, float]:
    """Return ``mixture_accuracy`` and ``discrete_accuracy`` in per cent, over at most so many batches.

    For another task than classification, the name of its main metric takes the place of ``accuracy``.
    """
    evaluation, space = snapshot.evaluation, snapshot.space
    if evaluation is None:
        raise UserError("the snapshot has no evaluation, which metrics need; give it one.")

    def metric(mixture: Mixture) -> float:
        return mean(evaluation.metric(mixture, number) for number in range(min(batches, evaluation.batches)))

    options, name = options_with(space, snapshot.probabilities), evaluation.info.name
    return {
        f"mixture_{name}": metric(expand_to_cells(space.searched_blocks(options), snapshot.probabilities)),
        f"discrete_{name}": metric(space.one_hot(snapshot.genotype, options)),
    }
