"""A check that a search fits into memory and time, before anything is built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from archgrad.autodiff.tensors import Mixture
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.method.bundle import Method
from archgrad.spaces import SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.system.memory import check_memory, total_memory

__all__ = ["MOST_STEPS", "check_steps", "check_supernet_memory"]

MOST_STEPS = 10_000_000
"""At 10 ms each, so many steps take more than a day; published searches have at most a million."""

_ORDINARY_CHANNELS, _ORDINARY_DEPTH = 64, 32
"""Up to these sizes, the weights of a supernet need no count."""
_DEPTHS = (3, 6)
"""The depths that are counted; the size of deeper supernets grows linearly from there."""
_SMALL_IMAGE, _SMALL_BATCH = 16, 4
_WEIGHT_COPIES = 3
"""The weights, their gradient and their momentum."""
_FLOAT = 4
_FIX = "fewer --channels or --cells, smaller batches (--batch-size) or smaller images (--image-size)"


def check_steps(epochs: int, steps: int) -> None:
    """Reject a search of more steps than anyone can wait for."""
    if epochs * steps > MOST_STEPS:
        raise UserError(
            f"epochs is {epochs}, so the search would take {epochs * steps:,} steps, which is "
            f"{epochs * steps * 0.01 / 86400:,.1f} days at 10 ms each; give at most {max(MOST_STEPS // steps, 1):,}."
        )


def check_supernet_memory(
    space: SearchSpace,
    method: Method,
    data: Data,
    outputs: int,
    batch_size: int,
    device: torch.device,
    checkpoint_cells: bool = False,
) -> None:
    """Reject a supernet whose weights and activations cannot fit into the memory of the machine or of the device.

    With ``checkpoint_cells`` a step needs the activations of one cell at a time, and the average is less than the most.
    """
    options = method.supernet_options(space)
    there = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else total_memory()
    shape = {"num_classes": outputs, "input_channels": data.channels}
    needed: float = _WEIGHT_COPIES * _FLOAT * _parameters(space, options, shape)
    check_memory("this supernet", needed, f"give {_FIX}", there)
    images: float = batch_size * data.shape[1] * data.shape[2]
    if checkpoint_cells:
        images /= sum(block.cells for block in space.blocks)
    fix = f"give {_FIX}" if checkpoint_cells else f"give --checkpoint-cells, or {_FIX}"
    least = _least_activations(space, options) * images
    check_memory("one step of this search", needed + least, fix, there)
    if needed + least > there / 100 and not method.relaxation.sparse:  # large enough to be worth a closer look
        needed += _activations(space, options, shape) * images
        check_memory("one step of this search", needed, fix, there)


def _parameters(space: SearchSpace, options: SupernetOptions, shape: dict[str, int]) -> int:
    """Return the number of weights, from small depths and without memory; 0 where the size is ordinary."""
    depth: int = getattr(space, space.depth_knob)
    if space.channels <= _ORDINARY_CHANNELS and depth <= _ORDINARY_DEPTH:
        return 0
    if depth <= _DEPTHS[1]:
        return _counted(space, options, shape)
    small, large = (_counted(_at_depth(space, size), options, shape) for size in _DEPTHS)
    return small + (large - small) * (depth - _DEPTHS[0]) // (_DEPTHS[1] - _DEPTHS[0])


def _at_depth(space: SearchSpace, depth: int) -> SearchSpace:
    sizes: dict[str, Any] = {space.depth_knob: depth}
    return replace(space, **sizes)


def _counted(space: SearchSpace, options: SupernetOptions, shape: dict[str, int]) -> int:
    try:
        with torch.device("meta"):
            return sum(weight.numel() for weight in space.supernet(options, **shape).parameters())
    except RuntimeError:  # a custom space that computes with its weights while it is built
        return 0


def _least_activations(space: SearchSpace, options: SupernetOptions) -> float:
    """Return the bytes per pixel of a batch that any supernet keeps: the output of each edge, at a quarter of C·H·W."""
    edges = sum(block.cells * len(block.rows) for block in space.blocks)
    return edges * space.channels / options.partial * _FLOAT / 4


def _activations(space: SearchSpace, options: SupernetOptions, shape: dict[str, int]) -> float:
    """Return the bytes per pixel of a batch that a step keeps: half of what a small supernet does, scaled up.

    Between reductions a deep supernet keeps less than a shallow one, so that half of it is sure.
    """
    depth, channels = getattr(space, space.depth_knob), 2 * options.partial
    sizes: dict[str, Any] = {space.depth_knob: min(depth, _DEPTHS[0]), "channels": min(channels, space.channels)}
    small, kept = replace(space, **sizes), dict[int, int]()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    try:
        with torch.random.fork_rng([]), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            images = torch.rand(_SMALL_BATCH, shape["input_channels"], _SMALL_IMAGE, _SMALL_IMAGE)
            blocks = small.searched_blocks(options)
            mixture = Mixture({one.name: torch.full((one.cells, *one.shape), 1 / one.shape[1]) for one in blocks})
            logits = small.supernet(options, **shape)(images, mixture)
            del logits  # it keeps the saved tensors, and so their addresses, until here
    except RuntimeError:
        return 0.0
    deeper: float = depth / sizes[space.depth_knob] * space.channels / sizes["channels"]
    return sum(kept.values()) * deeper / (2 * _SMALL_BATCH * _SMALL_IMAGE**2)
