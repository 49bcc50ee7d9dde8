"""Processes that find PyTorch and archgrad imported: one server imports both once, and forks each process.

A process of its own needs three seconds of processor time for that, which is more than most tests of processes take.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

__all__ = ["Forked", "context"]


@lru_cache(maxsize=1)
def context() -> ForkServerContext:
    """Return what starts the processes; ``torch._dynamo`` is what the first optimizer of a process imports."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(
        [
            "torch._dynamo",
            "torch.distributed",
            "sklearn.datasets",
            "archgrad.cli.search",
            "archgrad.loop.entry",
            "archgrad.recipes",
            "archgrad.studies.coordinator",
        ]
    )
    return found


class Forked:
    """A call in a process of its own, with its own folder, environment, output and errors.

    It ends as every program does, by taking all modules down, or ``at_once``, which saves another second.
    """

    def __init__(
        self, call: Callable[[], object], folder: Path, environment: Mapping[str, str], at_once: bool = False
    ) -> None:
        reader, writer = context().Pipe(duplex=False)
        self._errors = folder / f"errors-{len(list(folder.glob('errors-*')))}"
        self._errors.touch()
        arguments = (call, folder, {**environment}, writer, self._errors, at_once)
        self.process = context().Process(target=_run, args=arguments, daemon=True)
        self.process.start()
        writer.close()
        self.output = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        reader.close()

    def end(self) -> tuple[int | None, str, str]:
        """Wait, and return the exit code, the rest of the output and the errors."""
        with self.output:
            said = self.output.read()
        self.process.join()
        return self.process.exitcode, said, self._errors.read_text(encoding="utf-8")


def _run(
    call: Callable[[], object],
    folder: Path,
    environment: dict[str, str],
    output: Connection,
    errors: Path,
    at_once: bool,
) -> None:
    with errors.open("w") as file:
        os.dup2(file.fileno(), 2)
    os.dup2(output.fileno(), 1)
    output.close()
    sys.stdout, sys.stderr = (os.fdopen(place, "w", buffering=1, encoding="utf-8") for place in (1, 2))
    os.chdir(folder)
    os.environ.update(environment)
    code = 0
    try:
        call()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code) if at_once else ctypes.pythonapi.Py_Exit(code)
