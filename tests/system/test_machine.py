from __future__ import annotations

import platform

import torch

from archgrad.system.machine import describe_machine


def test_a_run_can_say_where_it_was_computed() -> None:
    found = describe_machine()
    assert (found["python"], found["torch"]) == (platform.python_version(), torch.__version__)
    assert found["processor"]
    assert int(found["cores"]) >= 1
