"""Small gathers between the processes of one machine, over Unix sockets.

A batch norm needs one collective in each pass, and a supernet has hundreds. Gloo takes 0.1 to 1 ms for each, because
several threads wake each other. A pair of sockets takes tens of microseconds, and tells at once when a process ends.
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

__all__ = ["MOST_BYTES", "SocketMesh"]

MOST_BYTES = 32 * 1024
"""Two messages of this size fit into the buffer of a socket, so that nobody waits for a reader while it sends."""
_BUFFER = 8 * MOST_BYTES
_SECONDS = 1800
"""How long a process waits for another, as in gloo."""
_PATIENCE = 20
"""How long it waits for a first connection, when all listen already."""


class SocketMesh:
    """A socket between each pair of processes; ``folder`` holds the addresses, and all processes must see it."""

    def __init__(self, folder: Path, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self._folder = folder
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(_PATIENCE)
        self._peers: dict[int, socket.socket] = {}
        self._listener.bind(self._address(rank))
        self._listener.listen(count)

    def _address(self, rank: int) -> str:
        return str(self._folder / str(rank))

    def connect(self) -> None:
        """Connect to all lower ranks, and accept all higher ones; every process must listen already."""
        for rank in range(self.rank):
            peer = socket.socket(socket.AF_UNIX)
            self._peers[rank] = peer
            peer.connect(self._address(rank))
            peer.sendall(struct.pack("i", self.rank))
        for _ in range(self.rank + 1, self.count):
            peer, _ = self._listener.accept()
            peer.settimeout(None)
            (rank,) = struct.unpack("i", peer.recv(4, socket.MSG_WAITALL))
            self._peers[rank] = peer
        for peer in self._peers.values():
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SECONDS, 0))
        self._peers = dict(sorted(self._peers.items()))

    def gather(self, row: Tensor) -> Tensor:
        """Return the rows of all processes ``[count, n]``; all rows have one size, at most ``MOST_BYTES``."""
        own = row.view(torch.uint8).numpy()
        rows = np.empty((self.count, own.size), np.uint8)
        rows[self.rank] = own
        for peer in self._peers.values():
            peer.sendall(own.data)
        for rank, peer in self._peers.items():
            _receive(peer, memoryview(rows[rank]))
        return torch.from_numpy(rows).view(row.dtype)

    def close(self) -> None:
        """Close all sockets; the others then know that this process has ended."""
        for one in (self._listener, *self._peers.values()):
            one.close()


def _receive(peer: socket.socket, into: memoryview) -> None:
    while len(into):
        got = peer.recv_into(into, len(into), socket.MSG_WAITALL)
        if not got:
            raise ConnectionError("connection closed by peer")
        into = into[got:]


def are_available() -> bool:
    """Tell whether this system has Unix sockets."""
    return sys.platform != "win32" and hasattr(socket, "AF_UNIX")
