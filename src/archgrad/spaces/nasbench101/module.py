"""Modules of NAS-Bench-101 (Ying et al., 2019, Section 2): a graph with an operation at every vertex."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import md5
from typing import Any

from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.fields import check_fields, checked
from archgrad.spaces.notation.common import BLANK, read_json

__all__ = [
    "CONV1X1",
    "CONV3X3",
    "INPUT",
    "LABELS",
    "MAXPOOL3X3",
    "MOST_EDGES",
    "MOST_VERTICES",
    "OPERATIONS",
    "OUTPUT",
    "Module",
    "canonical_hash",
    "vertices_on_paths",
]

INPUT = "input"
OUTPUT = "output"
CONV3X3 = "conv3x3-bn-relu"
CONV1X1 = "conv1x1-bn-relu"
MAXPOOL3X3 = "maxpool3x3"
OPERATIONS = (CONV3X3, CONV1X1, MAXPOOL3X3)
"""The operations of interior vertices; the hash numbers them in this order."""

MOST_VERTICES = 7
MOST_EDGES = 9
"""The limits of a pruned module in the benchmark; input and output count as vertices."""

_MOST_BEFORE_PRUNING = 32
_LONGEST_TEXT = 100_000
LABELS = {INPUT: -1, OUTPUT: -2} | {operation: number for number, operation in enumerate(OPERATIONS)}


@dataclass(frozen=True)
class Module:
    """A module: ``matrix[i][j]`` is 1 where vertex j reads vertex i, and ``operations`` has one entry per vertex.

    The vertices are in topological order, so the matrix is strictly upper triangular; the first is the input and the
    last the output. :attr:`hash` ignores vertices that do not contribute to the output.

    >>> module = Module(((0, 1, 1), (0, 0, 1), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
    >>> module.vertices, module.edges
    (3, 3)
    >>> Module.parse(module.to_json()) == module
    True
    """

    matrix: tuple[tuple[int, ...], ...]
    operations: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.matrix, list):
            rows = tuple(tuple(row) if isinstance(row, list) else row for row in self.matrix)
            object.__setattr__(self, "matrix", rows)
        if isinstance(self.operations, list):
            object.__setattr__(self, "operations", tuple(self.operations))
        check_fields(self, "{} of a module")
        _check_matrix(self.matrix)
        _check_operations(self.operations, len(self.matrix))

    @classmethod
    @checked
    def parse(cls, text: str) -> Module:
        """Read a JSON object with "matrix" and "ops"; other keys are ignored."""
        if len(text) > _LONGEST_TEXT:
            raise UserError(f"a module of {len(text)} letters is too long; it must be at most {_LONGEST_TEXT}.")
        content = read_json(text.strip(BLANK), what="module")
        for key in ("matrix", "ops"):
            if key not in content:
                raise UserError(f'a module is a JSON object with "matrix" and "ops", but this one has no "{key}".')
        return cls(content["matrix"], content["ops"])

    def to_dict(self) -> dict[str, Any]:
        """Return the content of :meth:`to_json` as plain objects."""
        return {"matrix": [list(row) for row in self.matrix], "ops": list(self.operations)}

    def to_json(self) -> str:
        """Return the JSON form on one line, as :meth:`parse` reads it."""
        return json.dumps(self.to_dict())

    @property
    def vertices(self) -> int:
        """The number of vertices, with the input and the output."""
        return len(self.matrix)

    @property
    def edges(self) -> int:
        """The number of edges."""
        return sum(map(sum, self.matrix))

    def sources_of(self, vertex: int) -> tuple[int, ...]:
        """Return the vertices that ``vertex`` reads, in order."""
        return tuple(source for source in range(vertex) if self.matrix[source][vertex])

    def pruned(self) -> Module:
        """Return the module without the vertices that lie on no path from the input to the output.

        >>> loose = Module(((0, 1, 1), (0, 0, 0), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
        >>> loose.pruned().operations
        ('input', 'output')
        """
        return self._pruned

    @cached_property
    def _pruned(self) -> Module:
        kept = vertices_on_paths(self.matrix)
        if not kept:
            raise UserError(
                f"no path leads from the input to the output of the module {self.to_json()}; add edges between them."
            )
        return self if len(kept) == self.vertices else self.with_vertices(kept)

    def with_vertices(self, kept: Sequence[int]) -> Module:
        """Return the module with only these vertices, in this order, and the edges between them."""
        matrix = tuple(tuple(self.matrix[i][j] for j in kept) for i in kept)
        return Module(matrix, tuple(self.operations[i] for i in kept))

    @cached_property
    def hash(self) -> str:
        """The benchmark's key for the pruned module; isomorphic modules share it."""
        pruned = self.pruned()
        return canonical_hash(pruned.matrix, [LABELS[operation] for operation in pruned.operations])

    def check(self) -> None:
        """Raise a UserError if the pruned module is too large for the benchmark."""
        pruned = self.pruned()
        if pruned.vertices > MOST_VERTICES or pruned.edges > MOST_EDGES:
            raise UserError(
                f"the module has {pruned.vertices} vertices and {pruned.edges} edges after pruning; NAS-Bench-101 "
                f"holds modules of at most {MOST_VERTICES} vertices and {MOST_EDGES} edges. Remove some."
            )


def canonical_hash(matrix: Sequence[Sequence[int]], labels: Sequence[int]) -> str:
    """Return the hash of a labeled graph (Ying et al., 2019, Section 2.3); isomorphic graphs have the same.

    It takes as many rounds of message passing as there are vertices:
    h⁰(v) = md5(str((out-degree, in-degree, label))); in a round, h(v) ← md5(sorted h of what enters v, "|", sorted h of
    what leaves it, "|", h(v)); the result is md5(str(sorted h)). The labels are -1 for the input, -2 for the output and
    the number of the operation for every other vertex.

    >>> canonical_hash([[0, 1], [0, 0]], [-1, -2])
    '043721b9c7fe8c5fad811d47d83132ec'
    """
    vertices = range(len(labels))
    sources = [[v for v in vertices if matrix[v][w]] for w in vertices]
    targets = [[w for w in vertices if matrix[v][w]] for v in vertices]
    hashes = [_md5(str((len(targets[v]), len(sources[v]), labels[v]))) for v in vertices]
    for _ in vertices:
        hashes = [
            _md5(
                "".join(sorted([hashes[w] for w in sources[v]]))
                + "|"
                + "".join(sorted([hashes[w] for w in targets[v]]))
                + "|"
                + hashes[v]
            )
            for v in vertices
        ]
    return _md5(str(sorted(hashes)))


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def vertices_on_paths(matrix: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the vertices on a path from the first to the last one, in order; none if there is no such path."""
    vertices = range(len(matrix))
    reached, reaching = {0}, {vertices[-1]}
    for vertex in vertices:
        if any(matrix[source][vertex] for source in range(vertex) if source in reached):
            reached.add(vertex)
    for vertex in reversed(vertices):
        if any(matrix[vertex][target] for target in range(vertex + 1, len(matrix)) if target in reaching):
            reaching.add(vertex)
    return tuple(sorted(reached & reaching))


def _check_matrix(matrix: tuple[tuple[int, ...], ...]) -> None:
    size = len(matrix)
    if not 2 <= size <= _MOST_BEFORE_PRUNING or any(len(row) != size for row in matrix):
        raise UserError(
            f"the matrix of a module has {size} rows of {', '.join(sorted({str(len(row)) for row in matrix})) or 0} "
            f"entries; it must be square, with 2 (the input and the output) to {_MOST_BEFORE_PRUNING} rows."
        )
    for number, row in enumerate(matrix):
        for column, entry in enumerate(row):
            if entry not in ((0, 1) if number < column else (0,)):
                raise UserError(
                    f"entry ({number}, {column}) of a module's matrix is {shortened(entry)}; it must be 1 where vertex "
                    f"{column} reads vertex {number}, which comes before it, and 0 elsewhere; put the vertices in "
                    f"topological order."
                )


def _check_operations(operations: tuple[str, ...], vertices: int) -> None:
    if len(operations) != vertices:
        raise UserError(f"a module has {len(operations)} operations; give one for each of its {vertices} vertices.")
    for number, operation in enumerate(operations):
        allowed = (INPUT,) if number == 0 else (OUTPUT,) if number == vertices - 1 else OPERATIONS
        if operation not in allowed:
            raise unknown(f"operation of vertex {number} in a module of {vertices} vertices:", operation, allowed)
