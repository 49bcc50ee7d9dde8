"""How the processes of a search join, agree and end."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache, wraps
from itertools import count
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before any group, see `joined`

from archgrad.distributed.collectives import all_gather, broadcast_bytes, noticing_losses
from archgrad.distributed.environment import Launched, launched
from archgrad.errors import UserError

__all__ = [
    "Processes",
    "check_same",
    "from_first",
    "in_first_process",
    "joined",
    "largest",
    "own_device",
    "processes",
    "say_once",
    "state_from_first",
    "wait_for_all",
]

T = TypeVar("T")
P = ParamSpec("P")

_PATIENCE = timedelta(seconds=20)
"""How long a process waits to hear that the first one has the same error."""
_ERROR = "archgrad/error"
_numbers = count()
distributed: Any = dist  # PyTorch exports more than it declares


class Processes(NamedTuple):
    """The number of this process, and how many search together."""

    rank: int
    size: int


def processes() -> Processes:
    """Return the number of this process and how many there are: (0, 1) if it is alone."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return Processes(0, 1)


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes that ``torchrun`` started, or those of a group that the caller has initialized.

    The first process alone writes and prints; the logs of the others are silent. The group ends with the block, if it
    began there, and with it the threads of gloo: one that lives until Python ends may abort the process. They end only
    when nobody holds the group any more. ``torch.distributed.nn.functional`` would hold it for ever, as the default of
    its arguments, if the first optimizer imported it while there is a group.
    """
    place = launched()
    begins = place is not None and dist.is_available() and not dist.is_initialized()
    if place is not None and begins:
        _initialize(place, device)
    try:
        me = processes()
        with _quiet_logs(me.rank > 0):
            yield me
        if begins:
            wait_for_all()  # nobody may leave while another still reads from it
    finally:
        if begins:
            dist.destroy_process_group()


def _initialize(place: Launched, device: str) -> None:
    cuda = _on_cuda(device)
    if cuda and torch.cuda.is_available():
        torch.cuda.set_device(place.local_rank)
    store = distributed.PrefixStore(f"archgrad/{next(_numbers)}", _store())
    with noticing_losses():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=place.rank, world_size=place.size
        )


@lru_cache(maxsize=1)
def _store() -> Any:
    """Return the store that all processes of ``torchrun`` share."""
    found, *_ = next(distributed.rendezvous("env://"))
    return found


def _control_device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


@contextmanager
def _quiet_logs(quiet: bool) -> Iterator[None]:
    logger = logging.getLogger("archgrad")

    def is_an_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    if quiet:
        logger.addFilter(is_an_error)
    try:
        yield
    finally:
        logger.removeFilter(is_an_error)


def own_device(device: str) -> str:
    """Return the device of this process: ``cuda`` is one graphics card for each."""
    place = launched()
    if place is not None and _on_cuda(device) and ":" not in device:
        return f"cuda:{place.local_rank}"
    return device


def _on_cuda(device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def from_first(compute: Callable[[], T]) -> T:
    """Return what the first process computes, in all processes; it must be plain data, as JSON has it."""
    me = processes()
    if me.size == 1:
        return compute()
    content = broadcast_bytes(json.dumps(compute()).encode() if me.rank == 0 else None)
    found: T = json.loads(content)
    return found


def state_from_first(compute: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the tensors and plain values that the first process computes, in all processes; reading runs no code."""
    me = processes()
    if me.size == 1:
        return compute()
    own, buffer = compute() if me.rank == 0 else None, io.BytesIO()
    if me.rank == 0:
        torch.save(own, buffer)
    content = broadcast_bytes(buffer.getvalue())
    found: dict[str, Any] | None = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return own if me.rank == 0 else found


def in_first_process(method: Callable[P, None]) -> Callable[P, None]:
    """Let a function that only writes or prints do nothing in the other processes."""

    @wraps(method)
    def maybe(*args: P.args, **kwargs: P.kwargs) -> None:
        if processes().rank == 0:
            method(*args, **kwargs)

    return maybe


def largest(number: int) -> int:
    """Return the largest of the numbers that the processes give."""
    if processes().size == 1:
        return number
    return int(all_gather(torch.tensor([number], device=_control_device())).max())


def wait_for_all() -> None:
    """Wait until all processes are here."""
    largest(0)


def check_same(what: str, digest: Callable[[], str]) -> None:
    """Raise a UserError unless all processes have the same ``digest()``, 16 hexadecimal digits."""
    if processes().size == 1:
        return
    number = int(digest(), 16)
    halves = torch.tensor([number >> 32, number & 0xFFFFFFFF], device=_control_device())
    found = all_gather(halves)
    if not bool((found == found[0]).all()):
        others = [rank for rank in range(len(found)) if not torch.equal(found[rank], found[0])]
        raise UserError(
            f"process {others[0]} has {what} than process 0; start all with the same command, data and versions."
        )


def say_once(sentence: str, say: Callable[[str], None], lost: bool) -> None:
    """Print the error of this process, unless the first process prints the same one.

    ``lost``: the error is only that another process has ended, so any error of the first process explains it.
    """
    place = launched()
    if place is not None and place.rank > 0 and _said_by_first(sentence, lost):
        return
    say(sentence)
    if place is not None and place.rank == 0:
        with suppress(Exception):  # the error is said already
            _store().set(_ERROR, sentence)


def _said_by_first(sentence: str, lost: bool) -> bool:
    try:
        _store().wait([_ERROR], _PATIENCE)
        return lost or _store().get(_ERROR).decode() == sentence
    except Exception:  # whatever happens, an error must be said
        return False
