"""The rows of a batch that one of several processes reads."""

from __future__ import annotations

from typing import NamedTuple

from archgrad.errors import UserError

__all__ = ["Rows"]


class Rows(NamedTuple):
    """Rows ``first`` to ``last`` (not included) of a batch of ``total`` rows.

    Random numbers are drawn for all rows, so that the parts of a batch together are the whole batch.

    >>> [Rows.of(8, rank, 3) for rank in range(3)]
    [Rows(first=0, last=3, total=8), Rows(first=3, last=6, total=8), Rows(first=6, last=8, total=8)]
    """

    first: int
    last: int
    total: int

    @classmethod
    def of(cls, total: int, rank: int = 0, world: int = 1) -> Rows:
        """Return the rows of process ``rank`` of ``world``, as ``torch.tensor_split`` divides them."""
        if not 0 <= rank < world:
            raise UserError(
                f"the shard is ({rank}, {world}); give (rank, processes), the rank from 0 to processes - 1."
            )
        size, more = divmod(total, world)
        first = rank * size + min(rank, more)
        return cls(first, first + size + (rank < more), total)
