"""The canonical hash of NAS-Bench-101: isomorphic modules have the same one (Ying et al., 2019, Section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5

__all__ = ["canonical_hash"]


def canonical_hash(matrix: Sequence[Sequence[int]], labels: Sequence[int]) -> str:
    """Return the hash of a labeled graph with as many rounds of message passing as it has vertices.

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
