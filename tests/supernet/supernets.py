"""Small supernets for the tests, with images, labels and mixtures, all from fixed seeds."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from reference import reference_supernet
from torch import Tensor, nn

from archgrad.spaces import SPACES, DecisionBlock, SearchSpace
from archgrad.supernet import Supernet, SupernetOptions

Mixture = dict[str, Tensor]
Blocks = tuple[DecisionBlock, ...]
LABELS = torch.tensor([0, 1, 2, 0])


def space_of(name: str, channels: int = 4, cells: int = 3) -> SearchSpace:
    depth = {"cells_per_stage": 1} if name == "nasbench201" else {"cells": cells}
    return SPACES.constructor(name)(channels=channels, **depth)


def supernet_of(space: SearchSpace) -> Supernet:
    torch.manual_seed(0)
    return space.supernet(num_classes=3)


def pair(
    space: SearchSpace, options: SupernetOptions | None = None, classes: int = 3, channels: int = 3
) -> tuple[Supernet, nn.Module]:
    """Return the fused supernet and the plain one with the same weights, in double precision."""
    torch.manual_seed(0)
    fused = space.supernet(options, num_classes=classes, input_channels=channels).double()
    reference = reference_supernet(space, options, num_classes=classes, input_channels=channels).double()
    reference.load_state_dict(fused.state_dict())
    return fused, reference


def images(count: int = 4, size: int = 8, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mixture_of(blocks: Blocks | SearchSpace, *by_image: int, dtype: torch.dtype = torch.float32) -> Mixture:
    """Draw rows on the simplex that differ in every cell, or in every image."""
    generator, mixture = torch.Generator().manual_seed(2), {}
    for block in blocks.searched_blocks() if isinstance(blocks, SearchSpace) else blocks:
        logits = torch.randn(block.cells, *by_image, *block.shape, generator=generator, dtype=dtype)
        mixture[block.name] = logits.masked_fill(~block.mask, -torch.inf).softmax(-1).requires_grad_()
    return mixture


def gradients_of(loss: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    gradients = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(inputs, gradients, strict=True))
