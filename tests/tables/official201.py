"""A small official folder of NATS-Bench, with the structure of the real one."""

from __future__ import annotations

import bz2
import pickle
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from archgrad.tables.nasbench201.cells import codes_by_name

NAMES = list(codes_by_name())
SETS = {
    "cifar10-valid": ("ori-test", "x-valid"),
    "cifar10": ("ori-test",),
    "cifar100": ("ori-test", "x-valid", "x-test"),
    "ImageNet16-120": ("ori-test", "x-valid", "x-test"),
}


def trial(dataset: str, seed: int, epochs: int, last: float) -> dict[str, Any]:
    """One training: the accuracy after the last epoch is ``last`` plus the place of the images, and 1 before."""
    names = SETS[dataset]
    ends = {name: last + place for place, name in enumerate(names)}
    return {
        "name": dataset,
        "net_state_dict": None,
        "train_acc1es": OrderedDict((epoch, 99.0) for epoch in range(epochs)),
        "train_times": None,
        "arch_config": {"channel": 16, "num_cells": 5, "class_num": 10},
        "params": np.float64(1.5),
        "flop": 30.5,
        "seed": str(seed),
        "epochs": epochs,
        "latency": [0.1, 0.2],
        "eval_names": list(names),
        "eval_acc1es": {f"{n}@{e}": ends[n] if e == epochs - 1 else 1.0 for n in names for e in (0, 11, epochs - 1)},
        "eval_losses": {f"{n}@{e}": 0.5 for n in names for e in (0, 11, epochs - 1)},
    }


def results(name: str, epochs: int, ends: Sequence[float], datasets: Sequence[str] = tuple(SETS)) -> dict[str, Any]:
    """The trainings of a cell, one for each accuracy in ``ends``."""
    seeds = [777 + 111 * place for place in range(len(ends))]
    return {
        "arch_index": 0,
        "arch_str": name,
        "all_results": {
            (dataset, seed): trial(dataset, seed, epochs, end)
            for dataset in datasets
            for seed, end in zip(seeds, ends, strict=True)
        },
        "dataset_seed": {dataset: list(seeds) for dataset in datasets},
        "clear_net_done": True,
    }


def cell(name: str, ends: Sequence[float]) -> OrderedDict[str, Any]:
    """A cell whose trainings of 12 epochs have one seed."""
    return OrderedDict({"12": results(name, 12, ends[:1]), "200": results(name, 200, ends)})


def content(names: Sequence[str]) -> dict[str, Any]:
    """What the file beside the cells holds."""
    return {
        "meta_archs": list(names),
        "total_archs": len(names),
        "arch2infos": None,
        "evaluated_indexes": set(range(len(names))),
    }


def pack(path: Path, value: object) -> Path:
    path.write_bytes(bz2.compress(pickle.dumps(value, protocol=4)))
    return path


def write_folder(folder: Path, cells: dict[int, Any], names: Sequence[str]) -> Path:
    """Write the folder of NATS-Bench."""
    folder.mkdir()
    pack(folder / "meta.pickle.pbz2", content(names))
    for index, one in cells.items():
        pack(folder / f"{index:06d}.pickle.pbz2", one)
    return folder
