"""Tiny trainings for the tests."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch
from listening import Event, StepFinished, listening
from torch import Tensor

import archgrad as ag
from archgrad.callbacks import Callback
from archgrad.operations import Identity, ReLUConvBN
from archgrad.spaces.staged import StagedSpace

CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|"
TINY: dict[str, Any] = {"channels": 4, "cells": 1, "epochs": 2, "batch_size": 20, "limit": 100}
"""Two epochs of four steps: 90 images train."""


class Own(StagedSpace):
    """A user's space with two operations."""

    name = "own"
    nodes = 2
    operations = {  # noqa: RUF012
        "skip_connect": lambda site: Identity(),
        "conv": lambda site: ReLUConvBN(site.channels, site, 3),
    }


OWN_CELL = "|conv~0|"


def trained(**options: Any) -> ag.TrainResult:
    """Train a tiny NAS-Bench-201 cell."""
    return ag.train("nasbench201", CELL, **{"data": "digits", **TINY, **options})


def interrupting(seed: int, index: int) -> list[Callback]:
    """Return callbacks that send SIGINT after step ``index`` of the training with this seed."""
    homes: list[object] = []

    def stop(event: Event) -> None:
        if isinstance(event, StepFinished):
            home = event.state.folder
            homes.append(home) if home not in homes else None
            if len(homes) == seed + 1 and event.state.index == index:
                os.kill(os.getpid(), signal.SIGINT)

    return listening(stop)


def tensors(model: ag.Model) -> dict[str, Tensor]:
    """Return all weights and running statistics."""
    return dict(model.network.state_dict())


def assert_same_bits(one: ag.TrainResult, other: ag.TrainResult) -> None:
    """Compare weights, statistics, history and result; only times may differ."""
    for run, again in zip(one.runs, other.runs, strict=True):
        own, others = tensors(run.model), tensors(again.model)
        assert own.keys() == others.keys()
        assert all(torch.equal(value, others[name]) for name, value in own.items())
        assert [untimed(record) for record in run.history] == [untimed(record) for record in again.history]
        assert run.model.about == again.model.about
    assert untimed(one.to_dict()) == untimed(other.to_dict())


def untimed(content: Any) -> Any:
    """Return a result without its times and places."""
    if isinstance(content, dict):
        return {name: untimed(value) for name, value in content.items() if name not in ("seconds", "model", "run")}
    return [untimed(one) for one in content] if isinstance(content, list) else content
