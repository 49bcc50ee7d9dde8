"""Processes that read batches ahead of time."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from datasets_of_all_kinds import Pairs
from torch import Tensor

from archgrad.data import Augmentation, Loader, from_dataset, measure
from archgrad.data.workers import _begin
from archgrad.errors import UserError

INPUTS = torch.rand(40, 2, 6, 6, generator=torch.Generator().manual_seed(0))
TARGETS = torch.arange(40) % 4


class Noisy(Pairs):
    """Draws from all global generators, as transforms of torchvision and of others do."""

    targets = TARGETS

    def __getitem__(self, index: int) -> Any:
        given, target = super().__getitem__(index)
        return given + torch.rand(()) + random.random() + np.random.rand(), target  # noqa: S311


def with_noise(given: Tensor, generator: torch.Generator) -> Tensor:
    return given + torch.rand(given.shape, generator=generator)


@pytest.fixture
def opened() -> Iterator[Any]:
    made: list[Loader] = []

    def make(workers: int, dataset: Any = None, shard: tuple[int, int] = (0, 1), **settings: Any) -> Loader:
        data = from_dataset(dataset or Noisy(INPUTS, TARGETS), **settings)
        chosen = torch.arange(3, 39)
        own = Loader(data, chosen, 5, measure(data), Augmentation(1, True, 2), 7, workers=workers, shard=shard)
        made.append(own)
        return own

    yield make
    for one in made:
        one.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_same_batches(workers: int, opened: Any) -> None:
    plain, ahead = opened(0, transform=with_noise), opened(workers, transform=with_noise)
    state = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    for index in (0, 1, 2, 9, 1, 12, 13, 14, 13, 16, 0):  # passes of 7 batches; forwards, again, and far back
        assert torch.equal(plain.batch(index).inputs, ahead.batch(index).inputs)
        assert torch.equal(plain.batch(index).targets, ahead.batch(index).targets)
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == random.getstate()
    assert np.array_equal(state[2], np.random.get_state()[1])


def test_draws_depend_on_the_pass_and_the_item_alone(opened: Any) -> None:
    plain = opened(0, transform=with_noise)
    both = [opened(0, transform=with_noise, shard=(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat([one.batch(4).inputs for one in both]), plain.batch(4).inputs)
    data = plain.data
    first, again, later = (data.read(torch.tensor([5, 6]), (7, number), True) for number in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert torch.equal(data.read(torch.tensor([6]), (7, 0), True)[0], first[1])


@pytest.mark.parametrize(("augmentation", "same"), [(Augmentation(), False), (None, True)], ids=["training", "measure"])
def test_only_in_training_has_each_pass_its_own_draws(augmentation: Augmentation | None, same: bool) -> None:
    data = from_dataset(Noisy(INPUTS, TARGETS), transform=with_noise)
    passes = Loader(data, torch.tensor([5]), 1, measure(data), augmentation, 7)
    assert torch.equal(passes.batch(0).inputs, passes.batch(1).inputs) == same


def test_a_closed_loader_starts_again(opened: Any) -> None:
    ahead = opened(2)
    first = ahead.batch(3).inputs
    ahead.close()
    assert multiprocessing.active_children() == []
    assert torch.equal(ahead.batch(3).inputs, first)


class Broken(Noisy):
    def __getitem__(self, index: int) -> Any:
        if index == 17:
            raise OSError("no such file\nat all")
        return super().__getitem__(index)


def test_an_error_in_a_worker_is_the_same_sentence(opened: Any) -> None:
    sentences = []
    for workers in (0, 2):
        loader = Loader(from_dataset(Broken(INPUTS, TARGETS), normalization=None), torch.arange(40), 40,
                        opened(0).normalization, workers=workers)  # fmt: skip
        with pytest.raises(UserError) as error:
            loader.batch(0)
        loader.close()
        sentences.append(str(error.value))
    assert sentences == ["item 17 of 'Broken' cannot be read (OSError: no such file); correct the dataset."] * 2


def test_workers_leave_signals_to_the_main_process(opened: Any) -> None:
    ahead = opened(2)
    expected = [opened(0).batch(index).inputs for index in range(12)]
    ahead.batch(0)
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, signal.SIGINT)
        os.kill(process.pid or 0, signal.SIGTERM)
    assert all(torch.equal(ahead.batch(index).inputs, expected[index]) for index in range(12))


def test_a_killed_worker_is_a_sentence(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.1)
    before = signal.getsignal(signal.SIGCHLD)
    ahead, other = opened(2), opened(1)
    ahead.batch(0)
    victim = multiprocessing.active_children()[0].pid or 0
    other.batch(0)

    def read_on() -> None:
        os.kill(victim, signal.SIGKILL)
        for index in range(1, 1000):
            ahead.batch(index)

    with pytest.raises(UserError, match=r"a process that reads the data was lost .*; give fewer workers"):
        read_on()
    ahead.close()
    assert torch.equal(ahead.batch(1).inputs, other.batch(1).inputs)
    for loader in (ahead, other):
        loader.close()
    assert before in (signal.SIG_DFL, signal.getsignal(signal.SIGCHLD))


def test_workers_end_although_one_died_with_a_lock(opened: Any) -> None:
    """PyTorch's own way to end its workers waits forever then."""
    ahead = opened(1)
    ahead.batch(0)
    lock = ahead._workers._iterator._workers_done_event._cond
    thief = multiprocessing.get_context("fork").Process(target=lambda: lock.acquire() and os._exit(0))
    thief.start()
    thief.join()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)  # a hang would be a KeyboardInterrupt
    try:
        ahead.close()
        assert ahead.batch(0).inputs.shape[0] > 0
        ahead.close()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def test_workers_end_although_the_search_was_killed_while_they_started(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells nobody of the death of a parent that was earlier than the question."""

    def late(parent: int, number: int) -> None:
        os.write(writer, str(os.getpid()).encode())
        os.kill(parent, signal.SIGKILL)
        while os.getppid() == parent:
            pass
        _begin(parent, number)

    monkeypatch.setattr("archgrad.data.workers._begin", late)
    reader, writer = os.pipe()
    search = multiprocessing.get_context("fork").Process(target=lambda: opened(1).batch(0))
    search.start()
    os.close(writer)
    search.join()
    worker = int(os.read(reader, 20))
    ended = select.select([reader], [], [], 60)[0]  # nobody holds the other end of the pipe any more
    if not ended:
        os.kill(worker, signal.SIGKILL)
    os.close(reader)
    assert ended


class Failing:
    """A loader of PyTorch that keeps what it is asked for and cannot start."""

    asked: dict[str, Any]

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def __call__(self, data: Any, **options: Any) -> Failing:
        self.asked = options
        return self

    def __iter__(self) -> Any:
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (pickle.PicklingError("Can't pickle f"), r"cannot be sent to worker processes \(Can't pickle f\); define"),
        (BlockingIOError("no more"), r"the worker processes cannot be started \(no more\); give fewer workers"),
    ],
    ids=["unsendable", "too-many"],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_processes_that_cannot_start_are_a_sentence(
    problem: Exception, sentence: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Failing(problem)
    monkeypatch.setattr("archgrad.data.workers.DataLoader", loader)
    data = from_dataset(Noisy(INPUTS, TARGETS), normalization=None)
    with pytest.raises(UserError, match=sentence):
        Loader(data, torch.arange(40), 5, measure(data), workers=2, device=device).batch(0)
    assert loader.asked["pin_memory"] == (device == "cuda")


UNCLOSED = """
import torch
from archgrad.data import Loader, from_dataset, measure
data = from_dataset([(torch.rand(1, 4, 4), number % 2) for number in range(8)])
loader = Loader(data, torch.arange(8), 2, measure(data), workers=2)
print(loader.batch(0).inputs.shape[0])
"""


def test_a_program_ends_although_it_did_not_close_its_loader() -> None:
    done = subprocess.run([sys.executable, "-c", UNCLOSED], capture_output=True, text=True, timeout=100, check=True)
    assert (done.stdout, done.stderr) == ("2\n", "")
