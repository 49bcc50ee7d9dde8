"""What a search rejects before it trains: batches, lengths and heads that cannot work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.func import functional_call

from archgrad.autodiff.gradients import detached_parameters
from archgrad.autodiff.tensors import Mixture, Weights
from archgrad.distributed.processes import processes
from archgrad.errors import UserError
from archgrad.supernet import SearchTime, Supernet, merge_arguments
from archgrad.system import random_streams
from archgrad.training.weight_training import NETWORK_ONLY, WeightTraining

if TYPE_CHECKING:
    from archgrad.loop.setup import Setup

__all__ = ["check_heads", "check_length", "check_network_settings", "check_norms"]

_FIRST = SearchTime(0, 1, 0, 0.0)


def check_length(setup: Setup) -> None:
    """Reject a search that would end before its architecture has moved."""
    schedule, epochs = setup.method.schedule, setup.weights.epochs
    steps = epochs * setup.steps
    if schedule.updates == "random" and not 0 < setup.arch_steps < steps:
        raise UserError(
            f"the search has {steps} steps, and with this seed all of them would move "
            f"{'the architecture' if setup.arch_steps else 'the weights'}; give more epochs or data, or another seed."
        )
    if setup.method.arch_optimizer.moves:
        schedule.check_epochs(epochs)


def check_heads(setup: Setup) -> None:
    """Reject an auxiliary head that would normalize over one image."""
    if setup.options.auxiliary_head and setup.least_rows(setup.weight_loader) < 2:
        raise UserError(
            "the auxiliary head normalizes single pixels and needs at least 2 images in a batch, but there is 1; "
            "raise batch_size or set supernet.auxiliary_head=0."
        )


def check_network_settings(setup: Setup) -> None:
    """Reject settings that only the training of one architecture has, and parts of batches that are too small."""
    weights, images = setup.weights, setup.weight_loader.batch_size
    for name in NETWORK_ONLY:
        if setup.blocks and getattr(weights, name) != getattr(WeightTraining, name):
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


def check_norms(setup: Setup, supernet: Supernet) -> None:
    """Reject batches of one image if a batch norm of the supernet would have one value per channel to normalize."""
    loaders = {
        "train the weights": setup.weight_loader, "train the architecture": setup.arch_loader,
        "evaluate architectures": setup.evaluation_loader, "are held out": setup.held_out_loader,
    }  # fmt: skip
    small = [what for what, loader in loaders.items() if loader is not None and setup.least_rows(loader) == 1]
    if not small:
        return
    size = setup.weight_loader.data.shape
    even = {name: torch.full(shape, 1 / shape[-1], device=setup.device) for name, shape in supernet.shapes.items()}
    image, mode = torch.zeros(1, *size, device=setup.device), merge_arguments(setup.space.modifiers, "training", _FIRST)
    weights = detached_parameters(supernet, Weights(dict(supernet.named_parameters())))
    try:
        with torch.no_grad(), random_streams.SavedRandomState(setup.device).replay():
            functional_call(supernet, weights, (image, Mixture(even)), mode)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise UserError(
            f"the images that {small[0]} come in batches of 1, and the network shrinks {size[1]}×{size[2]} pixels "
            f"to 1×1, so a batch norm has one value per channel; give a larger batch_size, image_size or more data."
        ) from error
