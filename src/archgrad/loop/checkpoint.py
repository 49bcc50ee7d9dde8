"""The last two checkpoints of a search: written whole or not at all, read without running code, and of this search."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from archgrad.config.search_config import CHANGED
from archgrad.distributed.processes import processes
from archgrad.errors import UserError, shortened
from archgrad.parts.serialization import differences, digest, to_data
from archgrad.system.files import atomic_write

__all__ = ["Checkpoints", "RunIdentity", "check_saved", "compare_machines", "load_optimizer", "refuse_damaged"]

_log = logging.getLogger("archgrad")
_FORMAT = "archgrad.checkpoint/3"
_SHOWN = 3
_OPTIONAL = ("task", *CHANGED)
"""Parts that an identity names only where they are not the default, as those of earlier versions did not."""


@dataclass(frozen=True)
class RunIdentity:
    """The parts and settings of a search by name; ``required`` omits fields at their defaults.

    >>> RunIdentity.of(seed=0, split=(0.5, 0.5)).data
    {'seed': 0, 'split': [0.5, 0.5]}
    """

    data: Mapping[str, Any]
    required: Mapping[str, Any]

    @classmethod
    def of(cls, **parts: Any) -> RunIdentity:
        """Describe these parts."""
        return cls(to_data(parts), to_data(parts, sparse=True))

    def with_parts(self, **parts: Any) -> RunIdentity:
        """Return the identity with these parts added."""
        more = RunIdentity.of(**parts)
        return RunIdentity({**self.data, **more.data}, {**self.required, **more.required})

    @property
    def digest(self) -> str:
        """A short hash of the identity."""
        return digest(self.data)

    def check(self, saved: Any, path: Path) -> None:
        """Raise a UserError if the checkpoint in ``path`` was saved by another search."""
        known = {*self.data, *_OPTIONAL}  # not which stage it is
        own = {name: value for name, value in dict(saved or {}).items() if name in known}
        found = list(differences(own, dict(self.data), dict(self.required)))
        if not found:
            return
        named = [f"its {place} is {_shown(old)}, this one's is {_shown(new)}" for place, old, new in found[:_SHOWN]]
        more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
        raise UserError(
            f"{path} belongs to another search: {'; '.join(named)}{more}. Resume with the settings it was started "
            f"with, or choose another folder."
        )


def _shown(value: object) -> str:
    return "the default" if value is None else shortened(value)


class Checkpoints:
    """The last two checkpoints of a search in a folder: ``checkpoint.pt`` and ``checkpoint.previous.pt``.

    Each holds a digest of its content, which reveals a truncated, altered or foreign file. The previous one is used
    then. With the ``name`` "healthy" they are the states to go back to after a collapse.
    """

    def __init__(self, folder: Path, name: str = "checkpoint") -> None:
        self.current, self.previous = folder / f"{name}.pt", folder / f"{name}.previous.pt"
        self._current_is_broken = False

    def exist(self) -> bool:
        """Tell whether there is a checkpoint."""
        return self.current.exists() or self.previous.exists()

    def save(self, content: dict[str, Any], identity: RunIdentity) -> None:
        """Write a checkpoint, and keep the one before it."""
        with atomic_write(self.current) as file:
            _write_checkpoint(content, identity.data, file)
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
                    return dict(_read_checkpoint(path)["identity"])
        return {}

    def load(self, identity: RunIdentity) -> dict[str, Any]:
        """Return the newest intact checkpoint; raise a UserError if there is none or it belongs to another search."""
        problems = []
        for path in (self.current, self.previous):
            try:
                if not path.exists():
                    continue
                body = _read_checkpoint(path)
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

    def load_if_any(self, identity: RunIdentity) -> dict[str, Any]:
        """Return the newest intact checkpoint; empty if there is none."""
        return self.load(identity) if self.exist() else {}


def _write_checkpoint(content: Mapping[str, Any], identity: Mapping[str, Any], file: IO[bytes]) -> None:
    """Write a checkpoint; raise an OSError if the disk is full."""
    body = {"format": _FORMAT, "identity": dict(identity), "content": dict(content)}
    try:
        torch.save(body | {"digest": _digest(body)}, file)
    except RuntimeError as error:  # PyTorch may hide the error of a full disk behind one of its own
        hidden = error.__context__
        raise hidden if isinstance(hidden, OSError) else OSError(errno.EIO, str(error).splitlines()[0]) from error


def _read_checkpoint(path: Path) -> dict[str, Any]:
    """Return identity and content of a checkpoint; raise a UserError if the file is not intact.

    An error of the system, such as a missing permission, stays an OSError: it says nothing about the file.
    """
    try:
        body = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} is not an intact checkpoint: it is truncated, or another kind of file.") from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise UserError(
            f"{path} is not a checkpoint that this version of archgrad reads: expected the format {_FORMAT!r}."
        )
    if body.pop("digest", None) != _digest(body):
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


@contextmanager
def refuse_damaged() -> Iterator[None]:
    """Turn whatever is wrong with a saved state into a sentence."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:  # UserError is a ValueError
        problem = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise UserError(
            f"the checkpoint does not hold a state of this search: {problem}. Start a new search in another folder."
        ) from error


def check_saved(saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise an error if a saved state is that of a search of another size, or its tensors differ from ``own`` ones."""
    for name, size in (("epoch", "epochs"), ("step", "steps")):
        done, most = saved["position"][name], own["position"][size]
        if saved["position"][size] != most or not 0 <= done <= most:
            raise UserError(f"it is at {name} {done} of {saved['position'][size]}, and this one has {most}")
    for place in ("weights", "alpha", "average"):
        if saved[place].keys() != own[place].keys():
            raise UserError(f"its {place} have other names")
        for name, value in own[place].items():
            found, wanted = (f"{list(one.shape)} of {one.dtype}" for one in (saved[place][name], value))
            if found != wanted:
                raise UserError(f"its {place} {name!r} has {found}, not {wanted}")


def load_optimizer(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Take over a saved state to the bit; ``load_state_dict`` alone would change the type of whole numbers."""
    optimizer.load_state_dict(dict(saved))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, state in saved["state"].items():
        own = optimizer.state[parameters[number]]
        for name, value in state.items():
            if isinstance(value, Tensor):
                own[name] = value.to(own[name].device)


def compare_machines(saved: Mapping[str, Any]) -> None:
    """Say that the last bits may differ if the saved part of a search was computed by other threads or processes."""
    threads, now = saved["threads"], torch.get_num_threads()
    if threads != now:
        _log.warning(
            "the search began with %d threads and continues with %d, so the last bits of its numbers may differ; "
            "torch.set_num_threads(%d) or --threads %d repeats them.",
            threads, now, threads, threads,
        )  # fmt: skip
    before, size = saved["processes"], processes().size
    if before != size:
        _log.warning(
            "the search began with %d process%s and continues with %d, so the last bits of its numbers differ.",
            before, "" if before == 1 else "es", size,
        )  # fmt: skip
