"""A search that is killed at any moment and resumed ends as if nothing had happened, to the bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest
import torch
from listening import EpochFinished, Event, SearchFinished, StepFinished, listening
from same_bits import assert_same
from tiny_space import Tiny, noise

import archgrad as ag
from archgrad.errors import SearchInterrupted, UserError
from archgrad.loop import SearchResult

EPOCHS, STEPS = 3, 4

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the signals are those of POSIX")

# Killed processes are real ones. Starting Python and PyTorch takes longer than a search, so most of them are forked
# from one driver that has done so; the driver called with arguments runs one search and ends.
DRIVER = """
import io, json, os, signal, sys
from pathlib import Path

import torch

torch.set_num_threads(1)

import archgrad as ag
import archgrad.loop.folder
from archgrad.callbacks import Callback
from archgrad.errors import SearchInterrupted
from tiny_space import Tiny, noise

count = 0


def run(out, resume, where, number, told, heard):
    def reached():
        global count
        count += 1
        return count == number

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def say(*words):
        print(*words, file=told, flush=True)

    class Speaking(Callback):
        def on_step_end(self, search, means):
            say("step")
            if where == "wait" and reached():
                with open(heard) as file:
                    file.readline()

    def save(body, file):
        buffer = io.BytesIO()
        torch_save(body, buffer)
        raw = buffer.getvalue()
        if reached():
            file.write(raw[: len(raw) // 2])
            file.flush()
            die()
        file.write(raw)

    def move(self, target):
        result = replace(self, target)
        if Path(target).name == "checkpoint.previous.pt" and reached():
            die()
        return result

    def write(path, text):
        if path.name == where and reached():
            die()
        write_text(path, text)

    torch_save, replace = torch.save, Path.replace
    if where == "half written":
        torch.save = save
    if where == "between renames":
        Path.replace = move
    folder = sys.modules["archgrad.loop.folder"]
    write_text, folder.write_text = folder.write_text, write

    space, method = Tiny(channels=2, cells_per_stage=1), ag.recipes.darts()
    settings = {"epochs": 3, "seed": 7, "batch_size": 8, "interruptible": True, "callbacks": [Speaking()]}
    try:
        ag.search(space, method, noise(64), **settings, out=out, resume=resume)
    except SearchInterrupted as stop:
        say("stopped", stop.signal, stop)
        return 128 + stop.signal
    say("finished")
    return 0


if sys.argv[1:]:
    sys.exit(run(sys.argv[1], sys.argv[2] == "resume", "-", 0, sys.stdout, None))
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1)  # imports much
for line in sys.stdin:
    out, resume, where, number, told, heard = json.loads(line)
    pid = os.fork()
    if not pid:
        try:
            with open(told, "w") as file:
                code = run(out, resume, where, number, file, heard)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def search(**settings: object) -> SearchResult:
    """What the driver does, in this process."""
    space, method = Tiny(channels=2, cells_per_stage=1), ag.recipes.darts()
    settings = {"interruptible": "out" in settings, **settings}
    return ag.search(space, method, noise(64), epochs=EPOCHS, seed=7, batch_size=8, **settings)


@pytest.fixture(scope="module")
def whole() -> SearchResult:
    """The search that was never interrupted."""
    return search()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "driver.py"
    path.write_text(DRIVER)
    return path


@contextmanager
def started(script: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))  # for tiny_space
    with subprocess.Popen([sys.executable, str(script), *arguments], env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def driver(script: Path) -> Iterator[subprocess.Popen[str]]:
    with started(script) as process:
        yield process


class Child:
    """A search in another process, from its start to its end; leaving the block early kills it."""

    def __init__(self, driver: subprocess.Popen[str], out: Path, where: str, number: int, resume: bool = False) -> None:
        assert driver.stdin is not None
        assert driver.stdout is not None
        self.answers = driver.stdout
        self.heard, told = out.with_name("heard"), out.with_name("told")
        for pipe in (self.heard, told):
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        asked = [str(out), resume, where, number, str(told), str(self.heard)]
        print(json.dumps(asked), file=driver.stdin, flush=True)
        self.pid = int(self.answers.readline())
        self.told = told.open()
        self.code: int | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):  # it may have come to its end
                self.send(signal.SIGKILL)
            self.end()

    def see_steps(self, count: int) -> None:
        for _ in range(count):
            assert self.told.readline() == "step\n"

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def go_on(self) -> None:
        self.heard.write_text("go on\n")

    def end(self) -> tuple[str, int]:
        """Return the last words and the exit code."""
        with self.told:
            words, self.code = self.told.read(), int(self.answers.readline())
        return words, self.code


def epochs_shown(out: Path) -> list[int]:
    """Check that every file is whole, and return the epochs in metrics.jsonl."""
    for name in ("genotype.json", "summary.json"):
        if (out / name).exists():
            json.loads((out / name).read_text())
    lines = (out / "metrics.jsonl").read_text().splitlines() if (out / "metrics.jsonl").exists() else []
    return [json.loads(line)["epoch"] for line in lines]


def assert_resumes(out: Path, whole: SearchResult) -> None:
    """Resume in this process, and look at the folder on the way."""
    shown = epochs_shown(out)
    assert shown == list(range(1, len(shown) + 1))

    def look(event: Event) -> None:
        assert epochs_shown(out) == list(range(1, event.state.epoch + 1))

    assert_same(search(out=out, resume=True, callbacks=listening(look)), whole)
    assert epochs_shown(out) == [1, 2, 3]
    assert json.loads((out / "summary.json").read_text())["genotype"] == str(whole.genotype)
    assert ag.Genotype.parse((out / "genotype.json").read_text()) == whole.genotype
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("step", [1, 3, 4, 6, 11, 12], ids=lambda step: f"step{step}")
def test_killed_after_a_step(driver: subprocess.Popen[str], tmp_path: Path, whole: SearchResult, step: int) -> None:
    """Before the first epoch ends, in the middle of one, and just before the end of one."""
    out = tmp_path / "run"
    with Child(driver, out, "wait", step) as child:
        child.see_steps(step)
        child.send(signal.SIGKILL)
        assert child.end() == ("", -signal.SIGKILL)
    assert len(epochs_shown(out)) == (step - 1) // STEPS
    assert_resumes(out, whole)


def test_killed_again_and_again_at_random(
    driver: subprocess.Popen[str], script: Path, tmp_path: Path, whole: SearchResult
) -> None:
    """Wherever they are after so many steps; the last to resume is a process that knows nothing of the others."""
    draws, out = random.Random(0), tmp_path / "run"  # noqa: S311 - no secret
    for resume in (False, True):
        with Child(driver, out, "-", 0, resume) as child:
            child.see_steps(draws.randint(1, 6))
    with started(script, str(out), "resume") as process:
        assert process.stdout is not None
        assert process.stdout.read().endswith("finished\n")
        assert process.wait() == 0
    assert_resumes(out, whole)


@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("half written", 1),
        ("half written", 2),
        ("half written", 4),
        ("between renames", 1),
        ("between renames", 3),
        ("metrics.jsonl", 3),
        ("genotype.json", 1),
        ("summary.json", 1),
    ],
)
def test_killed_while_writing(
    driver: subprocess.Popen[str], tmp_path: Path, whole: SearchResult, where: str, number: int
) -> None:
    out = tmp_path / "run"
    with Child(driver, out, where, number) as child:
        words, code = child.end()
    assert "finished" not in words
    assert code == -signal.SIGKILL
    if where == "between renames":
        assert not (out / "checkpoint.pt").exists()
        assert (out / "checkpoint.previous.pt").exists()
    if where == "half written":
        assert list(out.glob(".checkpoint.pt.*.part"))
    assert_resumes(out, whole)


@pytest.mark.parametrize(("number", "step"), [(signal.SIGTERM, 2), (signal.SIGINT, 6)])
def test_a_signal_is_answered_after_the_step(
    driver: subprocess.Popen[str], tmp_path: Path, whole: SearchResult, number: signal.Signals, step: int
) -> None:
    out = tmp_path / "run"
    place = f"step {(step - 1) % STEPS + 1} of {STEPS} in epoch {(step - 1) // STEPS + 1} of {EPOCHS}"
    words = f"stopped {number.value} stopped after {place}; continue with `archgrad resume {out}`.\n"
    with Child(driver, out, "wait", step) as child:
        child.see_steps(step)
        child.send(number)
        child.go_on()
        assert child.end() == (words, 128 + number)
    position = torch.load(out / "checkpoint.pt", weights_only=True)["content"]["position"]
    assert position["epoch"] * STEPS + position["step"] == step
    assert_resumes(out, whole)


def sending(number: signal.Signals, kind: type, at: int) -> Callable[[Event], None]:
    """A listener that sends this process a signal at the ``at``-th event of a kind."""
    count = 0

    def listen(event: Event) -> None:
        nonlocal count
        count += isinstance(event, kind)
        if isinstance(event, kind) and count == at:
            signal.raise_signal(number)

    return listen


def test_a_signal_at_the_end_of_an_epoch(tmp_path: Path, whole: SearchResult) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SearchInterrupted, match="stopped after epoch 2 of 3; continue with") as caught:
        search(out=tmp_path, callbacks=listening(sending(signal.SIGTERM, EpochFinished, 2)))
    assert caught.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    saved = [torch.load(tmp_path / name, weights_only=True)["content"]["position"]["epoch"]
             for name in ("checkpoint.previous.pt", "checkpoint.pt")]  # fmt: skip
    assert saved == [1, 2]
    assert_resumes(tmp_path, whole)


def test_a_run_is_interrupted_after_every_step(tmp_path: Path, whole: SearchResult) -> None:
    for number in range(EPOCHS * STEPS - 1):
        with pytest.raises(SearchInterrupted):
            search(out=tmp_path, resume=number > 0, callbacks=listening(sending(signal.SIGINT, StepFinished, 1)))
    assert_resumes(tmp_path, whole)


@pytest.mark.parametrize("kind", [StepFinished, EpochFinished, SearchFinished])
def test_a_signal_at_the_very_end_is_not_lost(tmp_path: Path, whole: SearchResult, kind: type) -> None:
    at = {StepFinished: EPOCHS * STEPS, EpochFinished: EPOCHS, SearchFinished: 1}[kind]
    with pytest.raises(SearchInterrupted, match=f"the search is complete, its result is in {tmp_path}") as caught:
        search(out=tmp_path, callbacks=listening(sending(signal.SIGINT, kind, at)))
    assert caught.value.signal == signal.SIGINT
    assert (tmp_path / "summary.json").exists()
    assert_resumes(tmp_path, whole)


@contextmanager
def handling(number: signal.Signals, handler: object) -> Iterator[None]:
    before = signal.signal(number, handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_is_obeyed_at_once(tmp_path: Path, whole: SearchResult, first: signal.Signals) -> None:
    def twice(event: Event) -> None:
        if isinstance(event, StepFinished):
            signal.raise_signal(first)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("the second signal was not obeyed")

    with pytest.raises(KeyboardInterrupt):
        search(out=tmp_path, callbacks=listening(twice))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert_resumes(tmp_path, whole)


def test_a_second_signal_in_the_middle_of_the_last_checkpoint(
    tmp_path: Path, whole: SearchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = torch.save
    saves = 0

    def impatient(body: object, file: object) -> None:
        nonlocal saves
        saves += 1
        save(body, file)  # type: ignore[arg-type]
        if saves == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(torch, "save", impatient)
    with pytest.raises(KeyboardInterrupt):
        search(out=tmp_path, callbacks=listening(sending(signal.SIGINT, StepFinished, 2)))
    monkeypatch.undo()
    assert_resumes(tmp_path, whole)


def test_an_ignored_signal_stays_ignored(tmp_path: Path, whole: SearchResult) -> None:
    with handling(signal.SIGINT, signal.SIG_IGN):
        assert_same(search(out=tmp_path, callbacks=listening(sending(signal.SIGINT, StepFinished, 3))), whole)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_search_catches_no_signals_unless_it_shall(tmp_path: Path, whole: SearchResult) -> None:
    heard: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    with handling(signal.SIGTERM, handler):
        sent = listening(sending(signal.SIGTERM, StepFinished, 3))
        assert_same(search(out=tmp_path, interruptible=False, callbacks=sent), whole)
    assert heard == [signal.SIGTERM]
    with pytest.raises(UserError, match="interruptible=True needs out=FOLDER"):
        search(interruptible=True)
