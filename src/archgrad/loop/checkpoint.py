"""Checkpoints that are written whole or not at all, and read without running code."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.files import atomic_write

__all__ = ["Checkpoints"]

_FORMAT = "archgrad.checkpoint/1"
_log = logging.getLogger("archgrad")


class Checkpoints:
    """The last two checkpoints of a search in a folder: ``checkpoint.pt`` and ``checkpoint.previous.pt``.

    Each holds a digest of its own content, so that a truncated, altered or foreign file is recognised; the one before
    it is then used.
    """

    def __init__(self, folder: Path) -> None:
        self.current = folder / "checkpoint.pt"
        self.previous = folder / "checkpoint.previous.pt"
        self._current_is_broken = False

    def exist(self) -> bool:
        """Tell whether there is anything to resume from."""
        return self.current.exists() or self.previous.exists()

    def save(self, content: dict[str, Any], description: dict[str, str]) -> None:
        """Write a checkpoint, and keep the one before it."""
        body = {"format": _FORMAT, "description": description, "content": content}
        with atomic_write(self.current) as file:
            torch.save(body | {"digest": _digest(body)}, file)
            file.flush()
            os.fsync(file.fileno())  # a full disk must show before anything is renamed
            if self.current.exists() and not self._current_is_broken:
                # Both renames are atomic; between them there is no current file, and the previous one is complete.
                self.current.replace(self.previous)
        self._current_is_broken = False

    def load(self, description: dict[str, str]) -> dict[str, Any]:
        """Return the newest whole checkpoint; raise a UserError if there is none or it is of another search."""
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
                _log.warning("%s Going on from the checkpoint before it, %s.", problem, path.name)
            _compare(body["description"], description, path)
            self._current_is_broken = bool(problems)
            content: dict[str, Any] = body["content"]
            return content
        if problems:
            raise UserError(
                f"{' '.join(problems)} Nothing is left to resume from; start a new search in another folder."
            )
        raise UserError(f"there is no checkpoint in {self.current.parent}; start a new search.")


def _read(path: Path) -> dict[str, Any]:
    try:
        body = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{path} is not a whole checkpoint: it is truncated, or something else.") from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise UserError(f"{path} is not a checkpoint of archgrad; expected the format {_FORMAT!r}.")
    digest = body.pop("digest", None)
    if digest != _digest(body):
        raise UserError(f"{path} was altered after it was written: its digest does not match its content.")
    return body


_EARLIER = {"alpha_budget": "1.0"}
"""What the searches of checkpoints were that do not say it yet."""


def _compare(saved: dict[str, str], wanted: dict[str, str], path: Path) -> None:
    for name, value in wanted.items():
        if saved.get(name, _EARLIER.get(name)) != value:
            raise UserError(
                f"{path} belongs to another search: its {name} is {saved.get(name)}, this one's is {value}; "
                f"resume with the settings it was started with, or choose another folder."
            )


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
