"""An operation: a module that can run beside others on the same input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.distributed.pending_norms import PendingNorm
from archgrad.parts.fields import Count, Range, check_fields
from archgrad.system.random_streams import StreamKey, generator

__all__ = ["Factory", "Operation", "Site", "Source", "Term", "Vocabulary", "Weighted"]


@dataclass(frozen=True)
class Site:
    """Where an operation is built: its width, its stride, and whether it is part of a supernet.

    ``salt`` differs between the operations of a supernet, so that random operations draw different noise. A
    ``skeleton`` site is outside the cells: in a stem, a residual block or a head.
    """

    channels: Count
    stride: Annotated[int, Range(1, 2)] = 1
    searching: bool = True
    salt: int = 0
    skeleton: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    def norm(self, channels: int | None = None) -> nn.BatchNorm2d:
        """Return a batch norm of this many channels.

        In a supernet it keeps no running statistics, so the supernet stays a pure function. Inside cells it has no
        affine parameters, which would rescale the weights of the mixture. In the skeleton it has them, as in the
        published search code of NAS-Bench-201 and DARTS.
        """
        width = self.channels if channels is None else channels
        affine = self.skeleton or not self.searching
        return nn.BatchNorm2d(width, affine=affine, track_running_stats=not self.searching)


class Source:
    """One tensor, and the results that several operations share, each computed once.

    >>> source = Source(torch.tensor([[[[-1.0, 2.0]]]]))
    >>> source.relu() is source.relu()
    True
    """

    def __init__(self, x: Tensor, stream: StreamKey = (0,)) -> None:
        self.x = x
        self.stream = stream
        self._shared: dict[str, Tensor] = {}

    def share(self, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``compute(x)``; the first operation that asks for this name computes it."""
        if name not in self._shared:
            self._shared[name] = compute(self.x)
        return self._shared[name]

    def relu(self) -> Tensor:
        """Return the rectified input, which most convolutions start from."""
        return self.share("relu", F.relu)

    def generator(self, *path: int | str) -> torch.Generator:
        """Return the random stream of one operation, named by ``path``, in this call of the supernet."""
        return generator(*self.stream, *path, device=self.x.device)


class Weighted(NamedTuple):
    """A tensor and its mixture weight; the node multiplies all such pairs in one pass."""

    tensor: Tensor
    weight: Tensor


Term = Tensor | Weighted | PendingNorm | None
"""What an operation adds to a node. On shards of a batch its last batch norm may wait for the others of the node."""


class Operation(nn.Module):
    """A candidate operation: ``forward(x)`` in a plain network, :meth:`mixed` in a supernet.

    A new operation needs only ``forward``. Override :meth:`mixed` to share work with other operations on the same
    input, or to fold the mixture weight into the last batch norm. Drop-path never drops one that is not ``droppable``.
    To a ``residual`` operation the cell adds its input; drop-path drops only what is added to it.
    """

    droppable: bool = True
    residual: bool = False

    def mixed(self, source: Source, weight: Tensor) -> Term:
        """Return ``weight · self(source.x)`` as a product or as a pair; None contributes nothing."""
        return Weighted(self(source.x), weight)


Factory = Callable[[Site], Operation]
Vocabulary = dict[str, Factory]
