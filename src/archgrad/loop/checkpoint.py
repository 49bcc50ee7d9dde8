"""The last two checkpoints of a search: written whole or not at all, and read without running code."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.loop.checkpoint_file import read_checkpoint, write_checkpoint
from archgrad.loop.identity import Identity
from archgrad.system.files import atomic_write

__all__ = ["Checkpoints"]

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
        with atomic_write(self.current) as file:
            write_checkpoint(content, identity.data, file)
            file.flush()
            os.fsync(file.fileno())  # a full disk must show before anything is renamed
            if self.current.exists() and not self._current_is_broken:
                # Both renames are atomic; between them there is no current file, and the previous one is complete.
                self.current.replace(self.previous)
        self._current_is_broken = False

    def saved_identity(self) -> Mapping[str, Any]:
        """Return what the newest intact checkpoint says of its search; nothing if there is none."""
        for path in (self.current, self.previous):
            with suppress(UserError, OSError):
                if path.exists():
                    return dict(read_checkpoint(path)["identity"])
        return {}

    def load(self, identity: Identity) -> dict[str, Any]:
        """Return the newest intact checkpoint; raise a UserError if there is none or it belongs to another search."""
        problems = []
        for path in (self.current, self.previous):
            try:
                if not path.exists():
                    continue
                body = read_checkpoint(path)
            except UserError as error:
                problems.append(str(error))
                continue
            except OSError as error:
                raise UserError(
                    f"{path} cannot be read ({error.strerror or error}); nothing is lost yet: make it readable, then "
                    f"resume again."
                ) from error
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
