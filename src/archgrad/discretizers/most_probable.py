"""The k most probable architectures of a search."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.base import check_probabilities, edge_strengths
from archgrad.parts.fields import Count, checked
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace

__all__ = ["ScoredGenotype", "most_probable"]

_LOG_OF_ZERO = -1e6
"""Below the logarithm of any product of positive numbers: fewer zeros win."""

Choice = tuple[int, int]
"""A row and one of its choices."""


class ScoredGenotype(NamedTuple):
    """A genotype and the product of the probabilities that chose it."""

    genotype: Genotype
    score: float


class _Alternative(NamedTuple):
    """A way to decide a part of a cell, and the logarithm of its score."""

    log_score: float
    chosen: tuple[Choice, ...]


@checked
def most_probable(space: SearchSpace, probabilities: Probabilities, k: Count) -> list[ScoredGenotype]:
    """Return the k genotypes with the greatest product of probabilities, exactly, the greatest first.

    The product is over the choices of all kept rows. Where each node keeps some of its edges, every set of edges
    competes, and edge weights multiply: the first is what :class:`~archgrad.discretizers.Argmax` derives. Where a space
    keeps all rows, the product is the probability of the genotype.
    """
    check_probabilities(space, probabilities)
    parts = [(block, part) for block in space.blocks for part in _parts(block, probabilities, k)]
    found = []
    for log_score, chosen in islice(_best_products([part for _, part in parts]), k):
        selection: dict[str, list[Choice]] = {block.name: [] for block in space.blocks}
        for (block, part), place in zip(parts, chosen, strict=True):
            selection[block.name] += part[place].chosen
        found.append(ScoredGenotype(space.genotype(selection), math.exp(log_score)))
    return found


def _parts(block: DecisionBlock, probabilities: Probabilities, k: int) -> list[list[_Alternative]]:
    """Return the best k alternatives of every part of a block: a row, or a node that keeps some of its rows."""
    weights, edges = probabilities[block.name].tolist(), edge_strengths(block, probabilities)
    rows = [_of_row(block, index, row, 1.0 if edges is None else edges[index])[:k] for index, row in enumerate(weights)]
    if block.keep is None:
        return rows
    parts = []
    for target in block.targets:
        own = block.rows_into(target)
        sets = combinations(own, min(block.keep, len(own)))
        joined = [one for kept in sets for one in _joined([rows[index] for index in kept], k)]
        parts.append(sorted(joined, key=lambda one: -one.log_score)[:k])
    return parts


def _of_row(block: DecisionBlock, index: int, weights: Sequence[float], edge: float) -> list[_Alternative]:
    """Return all allowed sets of choices of a row, the best first."""
    found = [
        _Alternative(
            _log(edge) + sum(_log(weights[place]) for place in chosen), tuple((index, place) for place in chosen)
        )
        for chosen in combinations(block.allowed(index), block.rows[index].picks)
    ]
    return sorted(found, key=lambda one: -one.log_score)


def _joined(rows: Sequence[Sequence[_Alternative]], k: int) -> Iterator[_Alternative]:
    for log_score, places in islice(_best_products(rows), k):
        yield _Alternative(
            log_score, tuple(choice for row, place in zip(rows, places, strict=True) for choice in row[place].chosen)
        )


def _best_products(parts: Sequence[Sequence[_Alternative]]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield a place in every list, the best sum first: a heap holds the neighbors of what was yielded.

    The neighbors of a tuple have one place more by one; only places from the last one that is not 0 on are moved, so
    each tuple has one parent and comes once.
    """
    start = (0,) * len(parts)
    heap = [(-sum(part[0].log_score for part in parts), start)]
    while heap:
        negative, places = heapq.heappop(heap)
        yield -negative, places
        last = max((index for index, place in enumerate(places) if place), default=0)
        for index in range(last, len(parts)):
            place = places[index]
            if place + 1 < len(parts[index]):
                step = parts[index][place].log_score - parts[index][place + 1].log_score
                heapq.heappush(heap, (negative + step, (*places[:index], place + 1, *places[index + 1 :])))


def _log(weight: float) -> float:
    return math.log(weight) if weight > 0 else _LOG_OF_ZERO
