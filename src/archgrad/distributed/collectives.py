"""Sums and gathers of tensors over all processes; their results are identical in all of them, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.distributed as dist
from torch import Tensor

from archgrad.errors import ProcessLostError

__all__ = ["Traffic", "all_gather", "all_sum", "all_sums", "broadcast_bytes", "counted", "noticing_losses"]

_LOST = ("onnection", "closed", "reset", "roken pipe", "imed out", "timeout", "peer", "unavailable")


@dataclass
class Traffic:
    """The number of collectives and their bytes, for measurements."""

    calls: int = 0
    bytes: int = 0


counted = Traffic()


@contextmanager
def noticing_losses() -> Iterator[None]:
    """Turn the errors of a broken connection into one sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        lost = any(words in str(error) for words in _LOST)
        why = "its connection is closed" if lost else reason[0][:150]
        raise ProcessLostError(f"another process of this search has ended, or cannot be reached ({why}).") from error


@contextmanager
def _noted(x: Tensor) -> Iterator[None]:
    """Count a collective of this tensor, and notice if a process is lost in it."""
    counted.calls += 1
    counted.bytes += x.nbytes
    with noticing_losses():
        yield


def all_sum(x: Tensor) -> Tensor:
    """Return Σ x over the processes, in a new tensor."""
    total = x.detach().clone(memory_format=torch.contiguous_format)
    with _noted(x):
        dist.all_reduce(total)
    return total


def all_gather(x: Tensor) -> Tensor:
    """Return the tensors of all processes ``[processes, *x.shape]``; their shapes must be the same."""
    found = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    with _noted(x):
        dist.all_gather(found, x.contiguous())
    return torch.stack(found)


def all_sums(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return Σ x over the processes for each tensor, by one collective for each dtype."""
    found: dict[int, Tensor] = {}
    places = sorted(range(len(tensors)), key=lambda place: str(tensors[place].dtype))
    for _, group in groupby(places, key=lambda place: tensors[place].dtype):
        members = list(group)
        total = all_sum(torch.cat([tensors[place].reshape(-1) for place in members]))
        pieces = torch.split(total, [tensors[place].numel() for place in members])
        found |= {place: piece.view(tensors[place].shape) for place, piece in zip(members, pieces, strict=True)}
    return tuple(found[place] for place in range(len(tensors)))


def broadcast_bytes(content: bytes | None) -> bytes:
    """Return the bytes that the first process gives, in all processes."""
    device = torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")
    size = torch.tensor([len(content or b"")], device=device)
    with noticing_losses():
        dist.broadcast(size, 0)
        data = torch.zeros(int(size), dtype=torch.uint8, device=device)
        if dist.get_rank() == 0 and content:
            data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        if len(data):
            dist.broadcast(data, 0)
    return bytes(data.cpu().numpy().tobytes())
