"""The rows of the joint batch that this process has, and its part of random draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import UserError

__all__ = ["Shard", "drawn_rows", "has_joint_statistics", "shard_pass"]


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` … ``stop``-1 of a joint batch of ``rows``, divided as :func:`torch.tensor_split` does.

    >>> [Shard.of(7, rank, 3) for rank in range(3)]
    [Shard(start=0, stop=3, rows=7), Shard(start=3, stop=5, rows=7), Shard(start=5, stop=7, rows=7)]
    """

    start: int
    stop: int
    rows: int

    @classmethod
    def of(cls, rows: int, rank: int = 0, count: int = 1) -> Shard:
        """Return the rows of process ``rank`` of ``count``."""
        if not 0 <= rank < count:
            raise UserError(
                f"the shard is ({rank}, {count}); give (rank, processes), the rank from 0 to processes - 1."
            )
        size, longer = divmod(rows, count)
        start = rank * size + min(rank, longer)
        return cls(start, start + size + (rank < longer), rows)

    @property
    def size(self) -> int:
        """The number of its rows."""
        return self.stop - self.start

    def own(self, joint: Tensor, dim: int = 0) -> Tensor:
        """Return the own rows of a joint tensor."""
        return joint.narrow(dim, self.start, self.size)


_current: ContextVar[Shard | None] = ContextVar("shard", default=None)
_joint_statistics: ContextVar[bool] = ContextVar("joint_statistics", default=False)


@contextmanager
def shard_pass(shard: Shard | None, joint_statistics: bool = False) -> Iterator[None]:
    """Let random draws for each image be those of the joint batch inside the block, and ``joint_statistics`` too."""
    tokens = _current.set(shard), _joint_statistics.set(joint_statistics)
    try:
        yield
    finally:
        _current.reset(tokens[0])
        _joint_statistics.reset(tokens[1])


def has_joint_statistics() -> bool:
    """Tell whether batch norms use the statistics of the joint batch here; compiled networks have one process."""
    return not torch.compiler.is_compiling() and _joint_statistics.get()


def drawn_rows(rows: int, draw: Callable[[int], Tensor]) -> Tensor:
    """Return ``draw(rows)``, one row for each image; in a shard, the own rows of what the joint batch draws.

    >>> import torch
    >>> with shard_pass(Shard.of(5, 1, 2)):
    ...     drawn_rows(2, torch.arange)
    tensor([3, 4])
    """
    shard = _current.get()
    if shard is None or shard.size != rows:
        return draw(rows)
    return shard.own(draw(shard.rows))
