"""Searches that compute the activations of their cells again: the same bits, less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import assert_same, dying_at
from spying import spied
from tiny_space import Tiny
from torch import nn

import archgrad as ag
from archgrad import recipes
from archgrad.config.resolve import resolve
from archgrad.data import Batch, load
from archgrad.errors import UserError
from archgrad.loop import checks, trust
from archgrad.loop.estimate import step_seconds
from archgrad.loop.experiment import Experiment
from archgrad.spaces import NASBench201

TINY: dict[str, Any] = {"channels": 2, "cells": 1, "limit": 40, "epochs": 1, "batch_size": 9}
DEEPER = TINY | {"cells": 2}
DARTS = TINY | {"channels": 4, "cells": 3, "settings": {"schedule.warmup_epochs": 0}}
STAGES = {"progressive.cells": (3, 3), "progressive.keep": (8, 2), "progressive.skip_dropout": (0.1, 0.4)}
SEARCHES = {
    "darts": ("nasbench201", TINY), "darts-2nd": (Tiny(), TINY), "idarts": (Tiny(), TINY), "amended": (Tiny(), TINY),
    "gaea-simultaneous": (Tiny(), TINY), "sdarts-adv": (Tiny(), TINY), "gdas": ("nasbench201", TINY),
    "lambda-darts": (Tiny(), DEEPER), "darts-minus": ("nasbench201", TINY),
    "gaea-pc-darts": ("nasbench1shot1-1", DARTS), "pc-darts": ("s3", DARTS),
    "p-darts": ("darts", TINY | {"cells": None, "settings": {"schedule.warmup_epochs": 0, **STAGES}}),
}  # fmt: skip


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_is_the_same_bits(method: str) -> None:
    space, settings = SEARCHES[method]
    plain, less = (ag.search(space, method, "digits", checkpoint_cells=on, **settings) for on in (False, True))
    assert_same(plain, less)


def test_a_run_resumes_with_or_without(tmp_path: Path) -> None:
    two = TINY | {"epochs": 2}
    whole = ag.search("nasbench201", "darts", "digits", **two)

    for first in (False, True):
        out = tmp_path / str(first)
        with pytest.raises(KeyboardInterrupt):
            ag.search("nasbench201", "darts", "digits", checkpoint_cells=first, callbacks=dying_at(), out=out, **two)
        again = ag.search("nasbench201", "darts", "digits", checkpoint_cells=not first, out=out, resume=True, **two)
        assert_same(whole, again)


@pytest.mark.parametrize(
    ("size", "recomputed", "compared"), [(64, True, 8), (9, True, 2), (400, True, 32), (64, False, 32)]
)
def test_fewer_images_are_compared_with_exact_products(size: int, recomputed: bool, compared: int) -> None:
    batch = Batch(torch.zeros(size, 1, 2, 2), torch.zeros(size, dtype=torch.int64))
    assert [len(part) for part in trust._few(batch, recomputed)] == [compared] * 2


def test_compiled_cells_are_refused() -> None:
    with pytest.raises(UserError, match="compile and checkpoint_cells are both on"):
        ag.search("nasbench201", "darts", "digits", compile=True, checkpoint_cells=True, **TINY)


class NoCells(NASBench201):
    """A space whose supernet has no cells that anyone knows."""

    def build(self, *arguments: Any) -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 1, 1))


def test_a_supernet_without_cells_is_refused() -> None:
    sizes = {name: value for name, value in TINY.items() if name not in ("channels", "cells")}
    with pytest.raises(UserError, match="the supernet of the space 'nasbench201' has no MixedCell"):
        ag.search(NoCells(channels=2, cells_per_stage=1), "darts", "digits", checkpoint_cells=True, **sizes)


def test_less_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    space, method, data = NASBench201(channels=16, cells_per_stage=5), recipes.named("darts"), load("digits", limit=200)
    asked: list[float] = []
    fixes: list[str] = []

    def note(what: str, needed: float, fix: str, there: int) -> None:
        asked.append(needed)
        fixes.append(fix)

    monkeypatch.setattr(checks, "check_memory", note)
    monkeypatch.setattr(checks, "total_memory", lambda: 1)
    for again in (False, True):
        checks.check_supernet_memory(space, method, data, 10, 64, torch.device("cpu"), again)
    plain, less = asked[:2], asked[2:]
    assert 0 < less[1] < 0.1 * plain[1]
    assert ["--checkpoint-cells" in fix for fix in fixes] == [False, True, False, False]


def test_estimates_recompute_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spied(monkeypatch, Experiment, "initial_state", lambda setup: setup.config.checkpoint_cells)
    config = ag.SearchConfig(method="darts", checkpoint_cells=True, **TINY)
    step_seconds(resolve(config), load("digits", limit=40), at_most=0.0)
    assert seen == [True]
