"""Enumerate and count the cells of a space with operations on nodes; the number depends on the counting rule.

For NAS-Bench-1Shot1 (Zela et al., 2020) the rules of :func:`count` give

======== ======= ======= =========
rule     space 1 space 2 space 3
======== ======= ======= =========
all       14,580  29,160 1,312,200
read       6,240  16,632   363,648
pruned     3,288  11,826   118,524
distinct   2,685   7,773    55,854
======== ======= ======= =========

The published sizes are 6,240, 29,160 and 363,648. Those of spaces 1 and 3 ignore the operation of a node that no node
reads; that of space 2 counts it. Choices that a restricted space no longer offers are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product

from archgrad.spaces.genotype import Genotype
from archgrad.spaces.nasbench101.conversion import cell_rows, offered_operations
from archgrad.spaces.nasbench101.module import INPUT, LABELS, OUTPUT, Module, canonical_hash, vertices_on_paths
from archgrad.spaces.notation.node_form import NodeChoice, genotype_with
from archgrad.spaces.space import SearchSpace

__all__ = ["RULES", "count", "genotypes", "hashed_modules", "hashes", "pruned_modules", "wirings"]

Wiring = tuple[tuple[str, ...], ...]
"""The names of the inputs of nodes 1, 2, … and of the output."""

Matrix = tuple[tuple[int, ...], ...]


def wirings(space: SearchSpace) -> Iterator[Wiring]:
    """Yield every choice of inputs for the nodes and the output."""
    return product(*(combinations(row.choices, row.picks) for row in cell_rows(space)))


def genotypes(space: SearchSpace) -> Iterator[Genotype]:
    """Yield every genotype of the space."""
    offers = offered_operations(space)
    for wiring in wirings(space):
        sources = [tuple(map(int, read)) for read in wiring]
        for operations in product(*offers.values()):
            yield genotype_with([NodeChoice(*node) for node in zip((*operations, OUTPUT), sources, strict=True)])


def pruned_modules(space: SearchSpace) -> Iterator[tuple[Matrix, tuple[str, ...]]]:
    """Yield the matrix and operations of every pruned module once; isomorphic modules count as different."""
    offers = offered_operations(space)
    graphs = {_pruned(wiring, offers): None for wiring in wirings(space)}
    seen: set[tuple[Matrix, tuple[str, ...]]] = set()
    for matrix, kept in graphs:
        for operations in product(*kept):
            module = (matrix, (INPUT, *operations, OUTPUT))
            if module not in seen:
                seen.add(module)
                yield module


def _pruned(wiring: Wiring, offers: Mapping[int, tuple[str, ...]]) -> tuple[Matrix, tuple[tuple[str, ...], ...]]:
    """Return the matrix of the vertices that contribute to the output, and the operations of each interior vertex."""
    vertices = range(len(wiring) + 1)
    entering = [frozenset[int](), *(frozenset(map(int, read)) for read in wiring)]
    matrix = [[int(source in entering[vertex]) for vertex in vertices] for source in vertices]
    kept = vertices_on_paths(matrix)
    return tuple(tuple(matrix[i][j] for j in kept) for i in kept), tuple(offers[i] for i in kept[1:-1])


def hashed_modules(space: SearchSpace) -> Iterator[tuple[str, Module]]:
    """Yield every canonical hash of the space once, with the first pruned module that has it."""
    seen: set[str] = set()
    for matrix, operations in pruned_modules(space):
        fingerprint = canonical_hash(matrix, [LABELS[operation] for operation in operations])
        if fingerprint not in seen:
            seen.add(fingerprint)
            yield fingerprint, Module(matrix, operations)


def hashes(space: SearchSpace) -> frozenset[str]:
    """Return the canonical hashes of all cells of the space, which are its rows in NAS-Bench-101."""
    return frozenset(fingerprint for fingerprint, _ in hashed_modules(space))


def count(space: SearchSpace, rule: str = "all") -> int:
    """Return the number of cells by one of the :data:`RULES`.

    ``all``: all genotypes. ``read``: the same, but cells that differ only in the operation of an unread node count
    once. ``pruned``: pruned modules. ``distinct``: pruned modules up to isomorphism.
    """
    return RULES[rule](space)


def _all(space: SearchSpace) -> int:
    ways = (math.comb(len(row.choices), row.picks) for row in cell_rows(space))
    return math.prod(ways) * math.prod(map(len, offered_operations(space).values()))


def _read(space: SearchSpace) -> int:
    offers = {str(node): len(choices) for node, choices in offered_operations(space).items()}
    read = (set().union(*wiring) & set(offers) for wiring in wirings(space))
    return sum(math.prod(offers[node] for node in nodes) for nodes in read)


RULES: dict[str, Callable[[SearchSpace], int]] = {
    "all": _all,
    "read": _read,
    "pruned": lambda space: sum(1 for _ in pruned_modules(space)),
    "distinct": lambda space: len(hashes(space)),
}
"""The counting rules, from the largest number to the smallest."""
