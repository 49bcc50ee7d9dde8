"""Small supernets for the tests, with images, labels and mixtures, all from fixed seeds."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from reference import reference_supernet
from torch import Tensor, nn
from torch.func import functional_call

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


def inputs_of(net: nn.Module, mixture: Mixture) -> dict[str, Tensor]:
    """Return weights and mixture by name."""
    return {**dict(net.named_parameters()), **{f"mixture {name}": value for name, value in mixture.items()}}


def direction(name: str, like: Tensor) -> Tensor:
    """Return a fixed random direction for the tensor of this name."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(like.shape, generator=generator, dtype=like.dtype)


def second_order(net: nn.Module, images: Tensor, labels: Tensor, mixture: Mixture) -> dict[str, Tensor]:
    """Differentiate ⟨v, ∂L/∂(w, p)⟩ again by (w, p): every block of the Hessian at once."""
    parameters = {name: value.detach().requires_grad_() for name, value in net.named_parameters()}
    inputs = {**parameters, **{f"mixture {name}": value for name, value in mixture.items()}}
    loss = F.cross_entropy(functional_call(net, parameters, (images, mixture), {"seed": 3}), labels)
    first = torch.autograd.grad(loss, list(inputs.values()), create_graph=True, allow_unused=True)
    along = ((g * direction(name, g)).sum() for name, g in zip(inputs, first, strict=True) if g is not None)
    return gradients_of(sum(along, start=torch.zeros((), dtype=loss.dtype)), inputs)


def assert_same_gradients(
    fused: nn.Module, reference: nn.Module, images: Tensor, labels: Tensor, mixture: Mixture
) -> None:
    """Compare the logits, and the gradients by weights and mixture; every part of the mixture has one."""
    logits, expected = fused(images, mixture, seed=3), reference(images, mixture, seed=3)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-11)
    gradients = gradients_of(F.cross_entropy(logits, labels), inputs_of(fused, mixture))
    wanted = gradients_of(F.cross_entropy(expected, labels), inputs_of(reference, mixture))
    assert list(gradients) == list(wanted)
    torch.testing.assert_close(gradients, wanted, rtol=1e-7, atol=1e-11)
    assert all(value.any() for key, value in gradients.items() if key.startswith("mixture"))


def assert_same_hessian_products(
    fused: nn.Module, reference: nn.Module, images: Tensor, labels: Tensor, mixture: Mixture
) -> None:
    """Compare the products of the whole Hessian with a random vector."""
    actual, expected = (second_order(net, images, labels, mixture) for net in (fused, reference))
    scale = max(value.abs().max().item() for value in expected.values())
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-9 * scale)
    assert scale > 1e-3
