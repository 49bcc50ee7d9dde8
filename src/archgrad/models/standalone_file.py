"""Write a model as one readable Python file that needs only PyTorch and safetensors."""

from __future__ import annotations

import re
from importlib.resources import files
from pprint import pformat
from typing import Any

from archgrad.errors import UserError
from archgrad.models.model import Model
from archgrad.spaces import DARTS, StagedSpace
from archgrad.spaces.darts import DARTSNet
from archgrad.spaces.nasbench101.network import ModuleNet, NASBench101Net
from archgrad.spaces.staged import StagedNet

__all__ = ["to_python"]

_HEADER = '''"""A network for {classes} classes, found by archgrad: {genotype}

    from {module} import load
    network = load()  # logits for normalized images [N, {channels}, {side}, {side}]

or `python {file} IMAGE...`. It needs PyTorch and safetensors, and Pillow to read images.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

'''
_NAMES = {
    "none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "max_pool_3x3", "avg_pool_3x3", "sep_conv_3x3",
    "sep_conv_5x5", "sep_conv_7x7", "dil_conv_3x3", "dil_conv_5x5", "conv_7x1_1x7",
}  # fmt: skip
"""The operations that a standalone file has."""


def to_python(model: Model, weights: str) -> str:
    """Return the text of the file; it reads the weights from the file of this name beside it."""
    piece, constants = _constants(model)
    about = model.preprocessing
    constants = {
        "INPUT_CHANNELS": about.channels,
        "CHANNELS": model.space.channels,
        "LARGE_IMAGES": getattr(model.space, "stem", "cifar") == "imagenet",
        "CLASSES": list(model.classes),
        "IMAGE_SIZE": about.image_size,
        "RESIZE": about.resize,
        "MEAN": list(about.normalization.mean),
        "STD": list(about.normalization.std),
        "WEIGHTS": weights,
        **constants,
    }
    stem = weights.removesuffix(".safetensors")
    header = _HEADER.format(
        classes=len(model.classes), genotype=model.genotype, module=stem, file=f"{stem}.py", channels=about.channels,
        side=about.image_size,
    )  # fmt: skip
    lines = [f"{name} = {pformat(value, width=110, compact=True)}" for name, value in constants.items()]
    return header + "\n".join(lines) + "".join(map(_body, ("layers", piece, "usage")))


def _body(piece: str) -> str:
    text = files("archgrad.models.standalone").joinpath(f"{piece}.py").read_text(encoding="utf-8")
    return re.split(r"^# ---$", text, flags=re.MULTILINE)[1]


def _constants(model: Model) -> tuple[str, dict[str, Any]]:
    """Return which network it is, and the constants that describe it."""
    space, network, genotype = model.space, model.network, model.genotype
    names = {decision.choice for decision in genotype.decisions}
    edges = {name: [(d.choice, d.source, d.target) for d in cell] for name, cell in genotype.blocks}
    if type(network) is NASBench101Net:
        return "nasbench101", _module_constants(network)
    if names <= _NAMES and type(network) is StagedNet and isinstance(space, StagedSpace):
        return "staged", {"CELL": edges["cell"], "CELLS_PER_STAGE": space.cells_per_stage}
    if names <= _NAMES and type(network) is DARTSNet and isinstance(space, DARTS):
        concats = {name: list(cell.concat or range(2, 6)) for name, cell in genotype.blocks}
        cells = {name: (edges[name], concats[name]) for name in edges}
        return "darts", {"CELLS": cells, "LAYERS": list(network.kinds), "REDUCTIONS": space.reductions}
    unknown = ", ".join(sorted(names - _NAMES)) or type(network).__name__
    raise UserError(f"a standalone file cannot hold {unknown}; export to .onnx or .pt2.")


def _module_constants(network: NASBench101Net) -> dict[str, Any]:
    modules = [layer for layer in network.layers if isinstance(layer, ModuleNet)]
    pools = [place for place, layer in enumerate(network.layers) if not isinstance(layer, ModuleNet)]
    return {
        "OPERATIONS": list(network.module.operations[1:-1]),
        "SOURCES": [list(sources) for sources in modules[0].sources],
        "MODULES": [(layer.widths[0], list(layer.widths)) for layer in modules],
        "REDUCTIONS": tuple(place - number for number, place in enumerate(pools)),
    }
