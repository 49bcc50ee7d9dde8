"""The last two checkpoints of a search: written whole or not at all, read without running code, and of this search.

What they hold is compared with the state of the search, before the search takes it over.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import logging
import math
import os
import stat
import zipfile
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
from archgrad.parts.fields import check_value
from archgrad.parts.serialization import differences, digest, to_data
from archgrad.system.files import atomic_write
from archgrad.system.memory import total_memory

__all__ = ["Checkpoints", "RunIdentity", "check_saved", "compare_machines", "load_optimizer", "refuse_damaged"]

_log = logging.getLogger("archgrad")
_FORMAT = "archgrad.checkpoint/3"
_DEEPEST = 100
_SHARED_BYTES = 64 * 2**20
"""Tensors may share memory, as expanded ones do, but they may not be larger than their file by more than this."""
_PLAIN = (dict, list, tuple, str, bytes, int, float, complex, type(None), torch.dtype, torch.device)
_LONGEST_NUMBER = 64
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
    size = _checked_size(path)
    try:
        body = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        if error.errno is not None:
            raise
        raise _not_intact(path) from error
    except Exception as error:
        raise _not_intact(path) from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise UserError(
            f"{path} is not a checkpoint that this version of archgrad reads: expected the format {_FORMAT!r}."
        )
    _check_values(body, size, path)
    digest = body.pop("digest", None)
    if digest != _digest(body):
        raise UserError(f"{path} was altered after it was written: its digest does not match its content.")
    whole = all(isinstance(body.get(name), dict) for name in ("identity", "content"))
    if not whole or any(isinstance(value, Tensor) for value, _ in _walk(body["identity"])):
        raise _implausible(path, "it must hold an identity in plain values, and a content")
    return body


def _not_intact(path: Path) -> UserError:
    return UserError(f"{path} is not an intact checkpoint: it is truncated, or another kind of file.")


def _checked_size(path: Path) -> int:
    """Return the size of a file; reject anything but an archive that is not compressed and fits into memory."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path} is not an intact checkpoint: it is a folder, a pipe or a device, not a file.")
    if found.st_size > total_memory():
        raise _implausible(path, "it is larger than the memory of this machine")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise _not_intact(path) from error
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise _implausible(path, "it is compressed")
    if sum(entry.file_size for entry in entries) > found.st_size:
        raise _implausible(path, "its parts are larger than the file")
    return found.st_size


def _implausible(path: Path, why: str) -> UserError:
    return UserError(f"{path} is not a checkpoint of archgrad: {why}.")


def _check_values(body: object, size: int, path: Path) -> None:
    """Reject values that would take far more time or memory than a file of so many bytes can honestly hold."""
    count, total, stored, seen = 0, 0, 0, set[int]()
    for value, depth in _walk(body):
        count += 1
        if depth > _DEEPEST or count > size:
            raise _implausible(path, "its values are nested too deeply, or repeat each other")
        if not isinstance(value, Tensor):
            if not isinstance(value, _PLAIN) or (isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER):
                raise _implausible(path, f"it holds a value of type {type(value).__name__} that no search saves")
            continue
        if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise _implausible(path, f"it holds a tensor of layout {value.layout} on {value.device}")
        storage = value.untyped_storage()
        stored += 0 if storage.data_ptr() in seen else storage.nbytes()
        seen.add(storage.data_ptr())
        total += value.numel() * value.element_size()
        if total > size + _SHARED_BYTES or stored > size:
            raise _implausible(path, "its tensors are larger than the file")


def _walk(body: object) -> Iterator[tuple[object, int]]:
    """Yield all values, the keys of dictionaries too, with their depths; without recursion, which could overflow."""
    left = [(body, 0)]
    while left:
        value, depth = left.pop()
        yield value, depth
        if isinstance(value, dict):
            left += ((one, depth + 1) for pair in value.items() for one in pair)
        elif isinstance(value, list | tuple):
            left += ((one, depth + 1) for one in value)


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


_SAVED = {
    "genotype": str, "stopped": str | None, "switched": tuple[int, int] | None, "trusted": dict[str, bool],
    "threads": int, "processes": int, "seconds": float, "position": dict[str, int], "optimizer": dict,
    "history": list[dict[str, Any]],
}  # fmt: skip
"""The types of what a checkpoint holds beside tensors."""


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


def check_saved(saved: Mapping[str, Any], own: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Raise an error if a saved state lacks anything, or has other types or shapes than the search's ``own``."""
    for name, kind in _SAVED.items():
        check_value(name, saved[name], kind)
    for name, size in (("epoch", "epochs"), ("step", "steps")):
        done, most = saved["position"][name], own["position"][size]
        if saved["position"][size] != most or not 0 <= done <= most:
            raise UserError(f"it is at {name} {done} of {saved['position'][size]}, and this one has {most}")
    for name in ("weights", "alpha", "average"):
        _check_tensors(name, saved[name], own[name])
    for name in ("arch_state", "hypergradient_state"):
        check_value(name, saved[name], dict[str, dict[str, Tensor]])
    _check_optimizer(saved["optimizer"], optimizer)
    epochs = [record["epoch"] for record in saved["history"]]
    if epochs != list(range(1, saved["position"]["epoch"] + 1)):
        raise UserError(f"its history has records of the epochs {shortened(epochs)}")
    for record in saved["history"]:
        if not all(isinstance(value, str | int | float | None) for value in record.values()):
            raise UserError(f"the record of epoch {record['epoch']} holds more than plain values")
        check_value("genotype", record["genotype"], str | None)
        check_value("seconds", record["seconds"], float)


def _check_tensors(place: str, saved: Mapping[str, Any], own: Mapping[str, Tensor]) -> None:
    if saved.keys() != own.keys():
        raise UserError(f"its {place} have other names")
    for name, value in own.items():
        _check_tensor(f"{place} {name!r}", saved[name], value)


def _check_tensor(place: str, saved: Any, own: Tensor) -> None:
    check_value(place, saved, Tensor)
    if (saved.shape, saved.dtype) != (own.shape, own.dtype):
        found, wanted = (f"{list(one.shape)} of {one.dtype}" for one in (saved, own))
        raise UserError(f"its {place} has {found}, not {wanted}")


def _check_optimizer(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Raise an error unless this is a ``state_dict`` of the optimizer.

    A copy of the optimizer takes one step with a gradient of zero, and its state tells the types and shapes. Quantities
    that it lacks after one step must have the shape of the weight, or be one number.
    """
    check_value("param_groups", saved["param_groups"], list[dict[str, Any]])
    if len(saved["param_groups"]) != len(optimizer.param_groups):
        raise UserError(f"its optimizer does not have {len(optimizer.param_groups)} groups of weights")
    parameters, examples = _parameters(optimizer), _example_states(optimizer) if saved["state"] else []
    for number, state in saved["state"].items():
        if number not in range(len(parameters)):
            raise UserError(f"its optimizer has a state of weight {shortened(number)} of {len(parameters)}")
        for name, value in state.items():
            place, example = f"{name!r} of weight {number} in its optimizer", examples[number].get(name)
            if isinstance(example, Tensor):
                _check_tensor(place, value, example)
            elif not isinstance(value, Tensor):
                check_value(place, value, str | float | bool | None if example is None else type(example))
            elif value.shape not in (parameters[number].shape, ()):
                raise UserError(f"{place} has another shape than the weight")


def load_optimizer(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Take over a checked state, to the bit; ``load_state_dict`` would change the type of whole numbers.

    Numbers in the parameter groups, where some optimizers count their steps, are taken over if they have the same type.
    """
    parameters, examples = _parameters(optimizer), _example_states(optimizer) if saved["state"] else []
    optimizer.state.clear()
    for number, state in saved["state"].items():
        own = optimizer.state[parameters[number]] = dict(state)
        for name, value in state.items():
            if isinstance(value, Tensor):
                own[name] = value.to(getattr(examples[number].get(name), "device", parameters[number].device))
    for group, before in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        for name, own in group.items():
            value = before.get(name)
            if type(own) in (int, float) and type(value) is type(own) and math.isfinite(value):
                group[name] = value


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _example_states(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the state of every weight after a step of a copy with a gradient of zero."""
    example = copy.deepcopy(optimizer)
    parameters = _parameters(example)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    example.step()
    return [example.state.get(parameter, {}) for parameter in parameters]


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
