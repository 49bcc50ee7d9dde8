"""Run directories as searches leave them, made without searching."""

from __future__ import annotations

import json
import math
from pathlib import Path

__all__ = ["HOSTILE", "add_epoch", "make_run"]

HOSTILE = "<img src=x onerror=document.title='broken'>"
OPERATIONS = ("skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")


def genotype(epoch: int) -> str:
    one, two, three, four, five, six = (OPERATIONS[(epoch // 2 + at) % 4] for at in range(6))
    return f"|{one}~0|+|{two}~0|{three}~1|+|{four}~0|{five}~1|{six}~2|"


def record(epoch: int, seed: int) -> dict[str, object]:
    shares = [1 + math.sin(epoch / 5 + at + seed) / 2 for at in range(4)]
    return {
        "epoch": epoch, "train_loss": 2 / epoch, "train_accuracy": 40 + epoch, "heldout_accuracy": 35 + epoch + seed,
        "heldout_loss": 2.1 / epoch, "genotype": genotype(epoch + seed), "seconds": 3.0, "entropy": 1.38 - epoch / 100,
        "alignment": 0.5 / epoch, "skips": epoch % 4, "oracle_cifar10_test_200ep": 94 - epoch / 10 - seed / 5,
        "diagnosis": "healthy",
        **{f"probability_{name}": one / sum(shares) for name, one in zip(OPERATIONS, shares, strict=True)},
    }  # fmt: skip


def make_run(folder: Path, method: str = "darts", seed: int = 0, epochs: int = 10, finished: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        f'format = "archgrad.config/1"\nmethod = {json.dumps(method)}\nspace = "nasbench201"\ndata = "cifar10"\n'
        f"seed = {seed}\nepochs = {epochs}\n",
        encoding="utf-8",
    )
    for epoch in range(1, epochs + 1):
        add_epoch(folder, epoch, seed)
    if finished:
        (folder / "summary.json").write_text(json.dumps({"epochs": epochs, "seconds": 3.0 * epochs}), encoding="utf-8")
    return folder


def add_epoch(folder: Path, epoch: int, seed: int = 0) -> None:
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record(epoch, seed)) + "\n")
