"""A process that dies before its n-th file operation, in this process: from then on no operation works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Killed(BaseException):
    """The process is dead: nothing cleans up."""


@contextmanager
def killed_before(number: int) -> Iterator[list[str]]:
    """Raise Killed in the n-th operation that changes files, and in all after it; yield what was done before."""
    done: list[str] = []

    def watched(real: Any, name: str) -> Any:
        def operation(*args: Any, **more: Any) -> Any:
            if name != "open" or "x" in str(args[1:2]):
                if len(done) >= number - 1:
                    raise Killed
                done.append(f"{name} {Path(args[0]).name}")
            return real(*args, **more)

        return operation

    with pytest.MonkeyPatch.context() as patched:
        for name in ("open", "replace", "mkdir", "unlink"):
            patched.setattr(Path, name, watched(getattr(Path, name), name))
        patched.setattr(shutil, "copyfile", watched(shutil.copyfile, "copyfile"))
        yield done
