"""What a search rejects before it trains: sizes, batches, lengths, heads and losses that cannot work."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call

from archgrad.autodiff.gradients import detached_parameters
from archgrad.autodiff.tensors import Mixture, Weights
from archgrad.data import Data, Loader
from archgrad.distributed.processes import processes
from archgrad.errors import ArchgradError, UserError, shortened
from archgrad.loop.step_checks import check_loss
from archgrad.method.bundle import Method
from archgrad.spaces import SearchSpace
from archgrad.supernet import SearchTime, Supernet, SupernetOptions, merge_arguments
from archgrad.system import random_streams
from archgrad.system.memory import check_memory, total_memory
from archgrad.tasks import BaseTask, align
from archgrad.training.weight_training import NETWORK_ONLY, WeightTraining

if TYPE_CHECKING:
    from archgrad.loop.experiment import Experiment

__all__ = ["MOST_STEPS", "check_before_training", "check_norms", "check_supernet_memory"]

MOST_STEPS = 10_000_000
"""At 10 ms each, so many steps take more than a day; published searches have at most a million."""

_ORDINARY_CHANNELS, _ORDINARY_DEPTH = 64, 32
"""Up to these sizes, the weights of a supernet need no count."""
_DEPTHS = (3, 6)
"""The depths that are counted; the size of deeper supernets grows linearly from there."""
_WEIGHT_COPIES = 3
"""The weights, their gradient and their momentum."""
_FLOAT = 4
_FIX = "fewer --channels or --cells, smaller batches (--batch-size) or smaller images (--image-size)"


def check_before_training(experiment: Experiment) -> None:
    """Raise a UserError if the search cannot be trained, or would be in vain."""
    check_steps(experiment.weights.epochs, experiment.steps)
    plan, size, again = (
        experiment.method.progressive,
        experiment.weight_loader.batch_size,
        experiment.config.checkpoint_cells,
    )
    for number in range(1 if plan is None else len(plan.stages)):
        space = experiment.space if plan is None else plan.sized(experiment.space, number)
        method, where = experiment.method.in_stage(number, space), (experiment.device, again)
        check_supernet_memory(space, method, experiment.data, experiment.outputs, size, *where)
    check_length(experiment)
    check_heads(experiment)
    check_network_settings(experiment)
    check_task(experiment.task, experiment.outputs, experiment.weight_loader)


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
    weights = _WEIGHT_COPIES * _FLOAT * _parameters(space, options, shape)
    check_memory("this supernet", weights, f"give {_FIX}", there)
    images: float = batch_size * data.shape[1] * data.shape[2]
    if checkpoint_cells:
        images /= sum(block.cells for block in space.blocks)
    fix = f"give {_FIX}" if checkpoint_cells else f"give --checkpoint-cells, or {_FIX}"
    check_memory("one step of this search", weights + _least_activations(space, options) * images, fix, there)


def _parameters(space: SearchSpace, options: SupernetOptions, shape: dict[str, int]) -> int:
    """Return the number of weights, from small depths and without memory; 0 where the size is ordinary."""
    depth: int = getattr(space, space.depth_knob)
    if space.channels <= _ORDINARY_CHANNELS and depth <= _ORDINARY_DEPTH:
        return 0
    if depth <= _DEPTHS[1]:
        return _counted(space, options, shape)
    depths: list[dict[str, Any]] = [{space.depth_knob: size} for size in _DEPTHS]
    small, large = (_counted(replace(space, **one), options, shape) for one in depths)
    return small + (large - small) * (depth - _DEPTHS[0]) // (_DEPTHS[1] - _DEPTHS[0])


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


def check_length(experiment: Experiment) -> None:
    """Reject a search whose random updates would move only the weights, or only the architecture."""
    steps = experiment.weights.epochs * experiment.steps
    if experiment.method.schedule.updates == "random" and not 0 < experiment.arch_steps < steps:
        raise UserError(
            f"the search has {steps} steps, and with this seed all of them would move "
            f"{'the architecture' if experiment.arch_steps else 'the weights'}; give more epochs or data, or another "
            f"seed."
        )


def check_heads(experiment: Experiment) -> None:
    """Reject an auxiliary head that would normalize over one image."""
    if experiment.options.auxiliary_head and experiment.least_rows(experiment.weight_loader) < 2:
        raise UserError(
            "the auxiliary head normalizes single pixels and needs at least 2 images in a batch, but there is 1; "
            "raise batch_size or set supernet.auxiliary_head=0."
        )


def check_network_settings(experiment: Experiment) -> None:
    """Reject settings that only the training of one architecture has, and parts of batches that are too small."""
    weights, images = experiment.weights, experiment.weight_loader.batch_size
    for name in NETWORK_ONLY:
        if experiment.blocks and getattr(weights, name) != getattr(WeightTraining, name):
            raise UserError(
                f"weights.{name} is {getattr(weights, name)}, but a search does not use it; leave it out, and give it "
                f"to the training of the architecture that the search finds."
            )
    if weights.accumulate > 1 and processes().size > 1:
        raise UserError(
            "weights.accumulate divides a batch in one process, but several processes divide it already; leave it out."
        )
    if weights.accumulate > max(images // 2, 1):
        raise UserError(
            f"weights.accumulate is {weights.accumulate}, but a batch has {images} images; give at most "
            f"{max(images // 2, 1)}, so that each part has 2."
        )


def check_norms(experiment: Experiment, supernet: Supernet) -> None:
    """Reject batches of one image if a batch norm of the supernet would have one value per channel to normalize."""
    loaders = {
        "train the weights": experiment.weight_loader, "train the architecture": experiment.arch_loader,
        "evaluate architectures": experiment.evaluation_loader, "are held out": experiment.held_out_loader,
    }  # fmt: skip
    small = [what for what, loader in loaders.items() if loader is not None and experiment.least_rows(loader) == 1]
    if not small:
        return
    size = experiment.weight_loader.data.shape
    even = {name: torch.full(shape, 1 / shape[-1], device=experiment.device) for name, shape in supernet.shapes.items()}
    image = torch.zeros(1, *size, device=experiment.device)
    mode = merge_arguments(experiment.space.modifiers, "training", SearchTime(0, 1, 0, 0.0))
    weights = detached_parameters(supernet, Weights(dict(supernet.named_parameters())))
    try:
        with torch.no_grad(), random_streams.SavedRandomState(experiment.device).replay():
            functional_call(supernet, weights, (image, Mixture(even)), mode)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise UserError(
            f"the images that {small[0]} come in batches of 1, and the network shrinks {size[1]}×{size[2]} pixels "
            f"to 1×1, so a batch norm has one value per channel; give a larger batch_size, image_size or more data."
        ) from error


def check_task(task: BaseTask, outputs: int, loader: Loader) -> None:
    """Raise a UserError if the loss or a metric does not suit outputs and targets; their numbers are arbitrary.

    The outputs are drawn from a normal distribution, so that no network is needed.
    """
    # The caller may record no gradients; a search records its own.
    with torch.inference_mode(False), torch.enable_grad(), random_streams.SavedRandomState(loader.device).replay():
        targets = loader.data.targets[loader.indices[: loader.batch_size]].to(loader.device)
        draws = torch.randn(len(targets), outputs, generator=random_streams.generator(0, "task"))
        _check_task(task, draws.to(loader.device).requires_grad_(), targets)


def _check_task(task: BaseTask, drawn: Tensor, targets: Tensor) -> None:
    what = task.loss_name
    try:
        outputs = align(drawn, targets)
        loss = task.loss(outputs, targets)
        check_loss(task, loss, outputs)
        with torch.no_grad():
            for name, metric in task.all_metrics.items():
                what = f"the metric {name!r}"
                metric.of_batch(outputs, targets)
            what = "the baseline of the task"
            task.chance(targets)
    except ArchgradError:
        raise
    except Exception as error:
        shapes = f"outputs {list(drawn.shape)} and targets {list(targets.shape)}"
        raise UserError(
            f"{what} fails for {shapes}: {type(error).__name__}: {shortened(str(error), 200)}; correct it."
        ) from error
    if not math.isfinite(loss.item()):
        raise UserError(f"{task.loss_name} is {loss.item()} for normally distributed outputs; it must be finite.")
