"""Tiny searches that one process and several run alike.

They have few batch norms: where more processes than cores run, each of them waits for the others that long.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from tiny_space import Tiny

import archgrad as ag
from archgrad.workflows import SingleArchitecture

SMALL = Tiny(channels=2, cells_per_stage=1)
CASES: dict[str, tuple[ag.spaces.SearchSpace, dict[str, Any]]] = {
    "darts": (SMALL, {}),
    "darts-2nd": (SMALL, {}),
    "idarts": (SMALL, {}),
    "amended": (SMALL, {}),
    "gaea": (SMALL, {}),
    "lambda-darts": (Tiny(channels=2, cells_per_stage=2), {}),
    "pc-darts": (Tiny(channels=4, cells_per_stage=1), {"schedule.warmup_epochs": 0}),
    "gdas": (SMALL, {}),
}
TWO_EPOCHS = ("darts", "sgas", "darts, drop-path, noise, auxiliary head", "darts-2nd, recomputed cells")
"""An epoch that begins anew, and drop-path, which the first epoch has none of; waiting for each other takes longest."""
OF_THREE = ("darts", "darts-2nd", "lambda-darts", "gdas")
"""What three processes run: a gradient, differences, gradients of cells, and random draws."""
FURTHER: dict[str, tuple[ag.spaces.SearchSpace, dict[str, Any]]] = {
    "xnas": (SMALL, {}),
    "darts, drop-path, noise, auxiliary head": (
        ag.spaces.S4(channels=2, cells=3), {"supernet.drop_path": 0.3, "supernet.auxiliary_head": 0.4},
    ),
    "oles": (SMALL, {"operation-stopping.threshold": 0.72, "operation-stopping.iterations": 1}),
    "sgas": (SMALL, {"greedy-decisions.begin": 0.0}),
    "darts, skip dropout": (SMALL, {"supernet.skip_dropout": 0.5}),
    "darts-2nd, recomputed cells": (SMALL, {"checkpoint_cells": True, "supernet.drop_path": 0.3}),
    "darts, recomputed cells, a budget": (
        SMALL,
        {"checkpoint_cells": True, "regularizer": "+cost-penalty", "cost-penalty.metric": "params",
         "cost-penalty.target": "1.5k"},
    ),
    "darts, exact products": (SMALL, {"hypergradient": "unrolled", "hypergradient.products": "exact"}),
    "random-nas, one architecture": (
        SingleArchitecture(of="resnet", architecture=str(ag.spaces.RESNET), channels=2, cells=1),
        {"discretizer": "argmax", "weights.ema_decay": 0.5},
    ),
}  # fmt: skip
"""What only two processes run."""


def images() -> ag.data.ImageData:
    """Return random images of four classes that can be told apart."""
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 4
    pixels = torch.randint(128, (60, 1, 8, 8), dtype=torch.uint8, generator=draws) + 32 * labels.view(-1, 1, 1, 1)
    return ag.data.ImageData("noise", pixels.to(torch.uint8), labels, tuple("abcd"), ag.data.Augmentation(1, True))


class Writer(ag.callbacks.Callback):
    """Counts how often it is told to write."""

    only_writes = True

    def __init__(self) -> None:
        self.epochs = 0

    def on_epoch_end(self, search: ag.callbacks.Search, record: ag.callbacks.Record) -> None:
        """Count."""
        self.epochs += 1


@dataclass(frozen=True)
class Waiting(ag.callbacks.Callback):
    """Waits after the first epoch, if a FIFO is there, until somebody has opened it: signals come at no other time."""

    only_writes: ClassVar[bool] = True

    def on_epoch_end(self, search: ag.callbacks.Search, record: ag.callbacks.Record) -> None:
        """Wait in the first process, and with it all others."""
        if record["epoch"] == 1 and Path("go").exists():
            print("waiting", flush=True)  # noqa: T201
            Path("go").read_text()


def search(name: str, **more: Any) -> ag.SearchResult:
    """Search for two steps of 13 images in double precision, in two epochs where anything differs between them."""
    space, settings = {**CASES, **FURTHER}[name]
    epochs = 2 if name in TWO_EPOCHS else 1
    own = {path: value for path, value in settings.items() if "." in path}
    options = {name: value for name, value in settings.items() if "." not in name}
    torch.set_default_dtype(torch.float64)
    try:
        return ag.search(
            space, name.partition(",")[0], images(), epochs=epochs, batch_size=13, seed=3, settings=own,
            standard_callbacks=False, on_collapse="ignore", **options, **more,
        )  # fmt: skip
    finally:
        torch.set_default_dtype(torch.float32)


def found(name: str) -> dict[str, Any]:
    """Return weights, α and the last record."""
    writer = Writer()
    result = search(name, callbacks=[writer])
    record = {key: value for key, value in result.history[-1].items() if key != "seconds"}
    return {
        "weights": {name: value.double() for name, value in result.supernet.state_dict().items()},
        "alpha": dict(result.alpha),
        "record": record,
        "written": writer.epochs,
    }
