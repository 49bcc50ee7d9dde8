"""Make the stored run anew: ``python tests/stored/make.py``, without ARCHGRAD_DATA in the environment."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import archgrad as ag

FOLDER = Path(__file__).parent / "run-1"


class Killed(ag.callbacks.Callback):
    """Ends the search in its second epoch."""

    def on_step_end(self, search: Any, means: Any) -> None:
        """Raise after the first step of the second epoch."""
        if search.epoch == 1:
            raise KeyboardInterrupt


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    sizes = {"channels": 1, "cells": 1, "limit": 40, "epochs": 2, "batch_size": 20, "held_out": 0}
    try:
        ag.search("nasbench201", "gaea", "digits", **sizes, out=FOLDER, callbacks=[Killed()])
    except KeyboardInterrupt:
        (FOLDER / "checkpoint.previous.pt").unlink(missing_ok=True)
