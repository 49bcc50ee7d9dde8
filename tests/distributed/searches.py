"""Tiny searches that one process and several run alike."""

from __future__ import annotations

from typing import Any

import torch

import archgrad as ag

SMALL = {"channels": 2, "cells_per_stage": 1, "exclude": ["nor_conv_1x1"]}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "darts": ("nasbench201", SMALL, {}),
    "darts-2nd": ("nasbench201", SMALL, {}),
    "idarts": ("nasbench201", SMALL, {}),
    "amended": ("nasbench201", SMALL, {}),
    "gaea": ("nasbench201", SMALL, {}),
    "lambda-darts": ("nasbench201", {**SMALL, "cells_per_stage": 2}, {}),
    "pc-darts": ("nasbench201", {**SMALL, "channels": 4}, {"schedule.warmup_epochs": 0}),
    "gdas": ("nasbench201", SMALL, {}),
    "xnas": ("nasbench201", SMALL, {}),
    "darts, drop-path and noise": (
        "s4",
        {"channels": 2, "cells": 3},
        {"supernet.drop_path": 0.3, "supernet.auxiliary_head": 0.4},
    ),
    "darts, skip dropout": ("nasbench201", SMALL, {"supernet.skip_dropout": 0.5}),
    "darts, exact products": ("nasbench201", SMALL, {"hypergradient": "unrolled", "hypergradient.products": "exact"}),
}


def images() -> ag.data.ImageData:
    """Return random images of four classes that can be told apart."""
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(136) % 4
    pixels = torch.randint(128, (136, 1, 8, 8), dtype=torch.uint8, generator=draws) + 32 * labels.view(-1, 1, 1, 1)
    return ag.data.ImageData("noise", pixels.to(torch.uint8), labels, tuple("abcd"), ag.data.Augmentation(1, True))


def search(name: str, **more: Any) -> ag.SearchResult:
    """Search for ten steps in double precision."""
    space, sizes, settings = CASES[name]
    settings = {**settings, **{f"space.{knob}": value for knob, value in sizes.items()}}
    options = {"hypergradient": settings.pop("hypergradient")} if "hypergradient" in settings else {}
    torch.set_default_dtype(torch.float64)
    try:
        return ag.search(
            space, name.partition(",")[0], images(), epochs=2, batch_size=12, seed=3, held_out=0.1, settings=settings,
            standard_callbacks=False, on_collapse="ignore", **options, **more,
        )  # fmt: skip
    finally:
        torch.set_default_dtype(torch.float32)


def found(name: str) -> dict[str, Any]:
    """Return weights, α and the last record."""
    result = search(name)
    record = {key: value for key, value in result.history[-1].items() if key != "seconds"}
    return {"weights": result.supernet.state_dict(), "alpha": dict(result.alpha), "record": record}
