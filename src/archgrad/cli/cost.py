"""``archgrad cost``: what an architecture's network takes, and how wide it may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from archgrad.cli.console import errors, say
from archgrad.config import read_run_config
from archgrad.errors import UserError
from archgrad.spaces.cost import cost_table, measure_latency, training_memory
from archgrad.system.amounts import counted
from archgrad.system.memory import check_memory
from archgrad.workflows.architecture import Architecture
from archgrad.workflows.limits import WIDEST, Limits, widest_within

__all__ = ["measure_cost", "shape_of", "show_cost"]

_BATCHES = (1, 64)


def shape_of(found: Architecture) -> dict[str, int]:
    """Return the shape of the images and the outputs of a run or a model, or that of CIFAR-10 without one."""
    if found.model is not None:
        images = found.model.preprocessing
        outputs = len(found.model.classes)
        return {"input_channels": images.channels, "image_size": images.image_size, "num_classes": outputs}
    if found.run is None:
        return {"input_channels": 3, "image_size": 32, "num_classes": 10}
    config = read_run_config(found.run)
    if {"data", "task"} & set(config.needs):
        raise UserError(
            f"the data of {found.run} cannot be named in a file; give --image-size, --input-channels and --classes."
        )
    from archgrad.config.resolve import task_of

    data = config.load_data()
    outputs = task_of(config).outputs(data)
    return {"input_channels": data.channels, "image_size": data.image_size, "num_classes": outputs}


def measure_cost(found: Architecture, shape: Mapping[str, int], limit: int | None, timed: bool) -> dict[str, Any]:
    """Measure an architecture's network; ``limit`` finds the largest width within so many multiply-adds first.

    ``shape`` has ``input_channels``, ``image_size`` and ``num_classes``. ``timed`` measures latencies too.
    """
    images, classes = {name: shape[name] for name in ("input_channels", "image_size")}, shape["num_classes"]
    space, genotype, channels = found.space, found.genotype, images["input_channels"]
    if limit is not None:
        space = widest_within(Limits(madds=limit), space, genotype, dict(shape), WIDEST)
    with torch.device("meta"):
        counted = space.network(genotype, num_classes=classes, input_channels=channels)
    table = cost_table(counted, **images)
    content: dict[str, Any] = {
        "genotype": str(genotype),
        "space": space.name,
        "channels": space.channels,
        "cells": getattr(space, space.depth_knob),
        **images,
        "classes": classes,
        **asdict(table.total),
        "training_bytes_per_image": training_memory(counted, **images),
        "by_cell": [asdict(row) for row in table.cells],
        "by_operation": [asdict(row) for row in table.operations],
    }
    if timed:
        needed = 4 * table.total.parameters + max(_BATCHES) * content["training_bytes_per_image"] / 2
        check_memory("timing this network", needed, "give --no-latency, or smaller sizes")
        network = space.network(genotype, num_classes=classes, input_channels=channels)
        say(f"timing batches of {' and '.join(map(str, _BATCHES))} images (--no-latency: none)", errors())
        content["latency_ms"] = {
            str(size): 1000 * measure_latency(network, **images, batch_size=size) for size in _BATCHES
        }
        content["threads"] = torch.get_num_threads()
    return content


def show_cost(content: Mapping[str, Any]) -> str:
    """Format the cost, with a table by operation and one by cell."""
    side = content["image_size"]
    lines = [
        f"{content['space']}: width {content['channels']}, depth {content['cells']}, images of "
        f"{content['input_channels']}×{side}×{side}, {content['classes']} outputs",
        f"parameters       {content['parameters']:>15,}",
        f"multiply-adds    {content['multiply_adds']:>15,}  for one image",
        f"training memory  {content['training_bytes_per_image']:>15,}  bytes for one image",
    ]
    threads = counted(content.get("threads", 1), "thread")
    for size, milliseconds in content.get("latency_ms", {}).items():
        lines.append(f"latency          {milliseconds:>12.2f} ms  for a batch of {size}, {threads}")
    for title, rows in (("operation", content["by_operation"]), ("part", content["by_cell"])):
        lines += ["", f"{title:<22} {'count':>5} {'parameters':>12} {'multiply-adds':>15}"]
        lines += [
            f"{row['name']:<22} {row['count']:>5} {row['parameters']:>12,} {row['multiply_adds']:>15,}" for row in rows
        ]
    return "\n".join(lines)
