"""The help: what must not be imported for it, and that its options stand in groups."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from archgrad.cli.options import GROUPS

HEAVY = ("torch", "numpy", "sklearn", "pyarrow", "PIL", "matplotlib")


@pytest.mark.parametrize(
    "program",
    [
        "import archgrad",
        "import archgrad.cli",
        "import sys, archgrad.cli\nsys.argv = ['archgrad', '-h']\ntry: archgrad.cli.main()\nexcept SystemExit: pass",
    ],
)
def test_heavy_libraries_stay_out(program):
    check = f"{program}\nimport sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "found"),
    [("archgrad insp", "inspect"), ("archgrad search --ep", "--epochs"), ("archgrad search --q", "")],
)
def test_the_shell_completes_commands_and_options(words, found):
    asked = {"_ARCHGRAD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    program = "import sys, archgrad.cli; sys.argv = ['archgrad']; archgrad.cli.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **asked})
    assert done.stdout.split() == found.split()


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "archgrad", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("archgrad ")


@pytest.mark.parametrize("command", ["search", "train", "select", "fit", "compare"])
def test_options_stand_in_groups_and_the_most_used_come_first(archgrad, command):
    out = archgrad.run(command, "--help")
    headings = [line.removesuffix(":") for line in out.splitlines() if line.endswith(":") and line[0].isupper()]
    headings = [one for one in headings if one != "Arguments"]
    assert headings[0] == "Most used options"
    assert headings == [title for title in GROUPS if title in headings], "an option has no group"
