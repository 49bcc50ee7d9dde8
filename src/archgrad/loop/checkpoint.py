"""Checkpoints that are written whole or not at all, and read without running code."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.files import atomic_write
from archgrad.loop.identity import Identity

__all__ = ["Checkpoints"]

_FORMAT = "archgrad.checkpoint/2"
_log = logging.getLogger("archgrad")


class Checkpoints:
    """The last two checkpoints of a search in a folder: ``checkpoint.pt`` and ``checkpoint.previous.pt``.

    Each holds a digest of its content, which reveals a truncated, altered or foreign file. The previous one is used
    then.
    """

    def __init__(self, folder: Path) -> None:
        self.current = folder / "checkpoint.pt"
        self.previous = folder / "checkpoint.previous.pt"
        self._current_is_broken = False

    def exist(self) -> bool:
        """Tell whether there is a checkpoint."""
        return self.current.exists() or self.previous.exists()

    def save(self, content: dict[str, Any], identity: Identity) -> None:
        """Write a checkpoint, and keep the one before it."""
        body = {"format": _FORMAT, "identity": dict(identity.data), "content": content}
        with atomic_write(self.current) as file:
            _write(body | {"digest": _digest(body)}, file)
            file.flush()
            os.fsync(file.fileno())  # a full disk must show before anything is renamed
            if self.current.exists() and not self._current_is_broken:
                # Both renames are atomic; between them there is no current file, and the previous one is complete.
                self.current.replace(self.previous)
        self._current_is_broken = False

    def saved_identity(self) -> Mapping[str, Any]:
        """Return what the newest intact checkpoint says of its search; nothing if there is none."""
        for path in (self.current, self.previous):
            with suppress(UserError):
                if path.exists():
                    return dict(_read(path)["identity"])
        return {}

    def load(self, identity: Identity) -> dict[str, Any]:
        """Return the newest intact checkpoint; raise a UserError if there is none or it belongs to another search."""
        problems = []
        for path in (self.current, self.previous):
            if not path.exists():
                continue
            try:
                body = _read(path)
            except UserError as error:
                problems.append(str(error))
                continue
            for problem in problems:
                _log.warning("%s Continuing from the previous checkpoint, %s.", problem, path.name)
            identity.check(body["identity"], path)
            self._current_is_broken = bool(problems)
            content: dict[str, Any] = body["content"]
            return content
        if problems:
            raise UserError(
                f"{' '.join(problems)} Nothing is left to resume from; start a new search in another folder."
            )
        raise UserError(f"there is no checkpoint in {self.current.parent}; start a new search.")


def _write(body: dict[str, Any], file: IO[bytes]) -> None:
    try:
        torch.save(body, file)
    except RuntimeError as error:  # PyTorch may hide the error of a full disk behind one of its own
        hidden = error.__context__
        raise hidden if isinstance(hidden, OSError) else OSError(errno.EIO, str(error).splitlines()[0]) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        body = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{path} is not an intact checkpoint: it is truncated, or another kind of file.") from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise UserError(
            f"{path} is not a checkpoint that this version of archgrad reads: expected the format {_FORMAT!r}."
        )
    digest = body.pop("digest", None)
    if digest != _digest(body):
        raise UserError(f"{path} was altered after it was written: its digest does not match its content.")
    return body


def _digest(content: object) -> str:
    state = hashlib.sha256()
    _feed(state, content)
    return state.hexdigest()


def _feed(state: Any, content: object) -> None:
    """Hash nested containers, tensors and plain values by type, shape and content."""
    if isinstance(content, dict):
        state.update(f"dict{len(content)}".encode())
        for key, value in content.items():
            _feed(state, key)
            _feed(state, value)
    elif isinstance(content, list | tuple):
        state.update(f"list{len(content)}".encode())
        for value in content:
            _feed(state, value)
    elif isinstance(content, Tensor):
        tensor = content.detach().cpu()
        state.update(f"tensor{tensor.dtype}{list(tensor.shape)}".encode())
        state.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    else:
        state.update(f"{type(content).__name__}{content!r};".encode())
