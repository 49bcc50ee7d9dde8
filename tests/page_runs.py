"""Run directories as searches, trainings and fits leave them, made without searching."""

from __future__ import annotations

import json
import math
from pathlib import Path

__all__ = ["HOSTILE", "add_epoch", "make_fit", "make_run", "make_training"]

HOSTILE = "<img src=x onerror=document.title='broken'>"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
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


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_mixture(folder: Path, epochs: int) -> None:
    """Write the probabilities of NAS-Bench-201 in every epoch."""
    edges = ("1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2")
    choices = [["cell", edge, name] for edge in edges for name in OPERATIONS]
    rows = [[round(0.25 + 0.2 * math.sin(epoch / 3 + at), 4) for at in range(24)] for epoch in range(epochs)]
    write_json(folder / "mixture.json", {"choices": choices, "epochs": rows})


def make_training(folder: Path, seeds: int = 2, epochs: int = 4) -> Path:
    """Make a finished training with several seeds."""
    for seed in range(seeds):
        make_run(folder / f"seed-{seed}", "train", seed, epochs)
    write_json(folder / "run.json", {"kind": "training"})
    write_json(folder / "training.json", {"preset": "quick", "seeds": list(range(seeds)), "test": None})
    (folder / "config.toml").write_text(
        f'data = "folder:my photos"\nepochs = {epochs}\nseed = 0\n[set.space]\nof = "nasbench201"\n'
        f'architecture = "{genotype(1)}"\n'
    )
    values = [90.0 + seed for seed in range(seeds)]
    parts = [{"seed": seed, "seconds": 9.0, "test": {"accuracy": one}} for seed, one in enumerate(values)]
    result = {"genotype": genotype(1), "metric": "accuracy", "unit": "%", "parameters": 1_200_000, "seeds": parts}
    write_json(folder / "result.json", {**result, "test": {"mean": sum(values) / seeds, "std": 0.7, "values": values}})
    return folder


def make_fit(folder: Path, classes: int = 3) -> Path:
    """Make a finished fit whose first class has a hostile name."""
    names = [HOSTILE, *(f"class {number}" for number in range(1, classes))]
    counts = [
        [10 if true == called else int(called == (true + 1) % classes) for called in range(classes)]
        for true in range(classes)
    ]
    write_mixture(make_run(folder / "search", epochs=3), 3)
    make_run(folder / "round-1" / "1", "train", 0, 2)
    make_run(folder / "final", "train", 1, 4)
    ranked = [{"name": f"network {one}", "heldout": 80.0 - one, "epochs": 2, "seconds": 6.0} for one in (1, 2)]
    worst = {"true": HOSTILE, "called": "class 1", "probability": 0.97, "name": f"{HOSTILE}/7.png", "image": PIXEL}
    write_json(folder / "run.json", {"kind": "fit"})
    write_json(
        folder / "fit.json",
        {
            "request": {"command": "archgrad fit photos", "data": "folder:photos", "budget": "30m"},
            "result": {
                "accuracy": 90.9, "interval": [85.0, 95.0], "test_images": 11 * classes, "network": "ResNet-20",
                "verdict": "a plain network won", "genotype": genotype(1), "total": 1800.0,
                "seconds": {"search": 450.0},
                "rounds": [{"kept": 1, "candidates": ranked}],
            },
            "tests": {
                "classes": names, "trained": [40] * classes, "confusion": counts, "worst": [worst], "latency": 0.002,
                "chance": 100 / classes,
            },
        },
    )  # fmt: skip
    return folder


def add_epoch(folder: Path, epoch: int, seed: int = 0, **more: object) -> None:
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record(epoch, seed) | more) + "\n")
