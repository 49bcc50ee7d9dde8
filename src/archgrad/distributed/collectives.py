"""Sums and gathers of tensors over all processes; their results are identical in all of them, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.distributed as dist
from torch import Tensor

from archgrad.distributed.sockets import MOST_BYTES, SocketMesh
from archgrad.errors import ProcessLostError

__all__ = ["Traffic", "all_gather", "all_sum", "all_sums", "broadcast_bytes", "counted", "noticing_losses", "use_mesh"]

_LOST = ("onnection", "closed", "reset", "roken pipe", "imed out", "timeout", "peer", "unavailable")


@dataclass
class Traffic:
    """The number of collectives and their bytes, for measurements."""

    calls: int = 0
    bytes: int = 0


counted = Traffic()
_meshes: list[SocketMesh] = []


@contextmanager
def use_mesh(mesh: SocketMesh | None) -> Iterator[None]:
    """Send small tensors over these sockets inside the block."""
    if mesh is None:
        yield
        return
    _meshes.append(mesh)
    try:
        yield
    finally:
        _meshes.remove(mesh)
        mesh.close()


@contextmanager
def noticing_losses() -> Iterator[None]:
    """Turn the errors of a broken connection into one sentence."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        lost = isinstance(error, OSError) or any(words in str(error) for words in _LOST)
        why = "its connection is closed" if lost else reason[0][:150]
        raise ProcessLostError(f"another process of this search has ended, or cannot be reached ({why}).") from error


def all_sum(x: Tensor) -> Tensor:
    """Return Σ x over the processes, in a new tensor."""
    with noticing_losses():
        if (rows := _small_gather(x)) is not None:
            return rows.sum(0).view(x.shape)
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


def all_gather(x: Tensor) -> Tensor:
    """Return the tensors of all processes ``[processes, *x.shape]``; their shapes must be the same."""
    with noticing_losses():
        if (rows := _small_gather(x)) is not None:
            return rows.view(-1, *x.shape)
        found = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
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


def _small_gather(x: Tensor) -> Tensor | None:
    """Return the entries of all processes ``[processes, n]`` over the sockets; None for a large or a distant tensor."""
    counted.calls += 1
    counted.bytes += x.nbytes
    small = bool(_meshes) and x.device.type == "cpu" and x.nbytes <= MOST_BYTES
    return _meshes[-1].gather(x.reshape(-1)) if small else None
