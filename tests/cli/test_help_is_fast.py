"""What must not be imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "archgrad", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("archgrad ")
