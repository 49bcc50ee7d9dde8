"""The derivatives of a small network, in one process or on shards: an image never meets another but in batch norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.distributed.forward import forward_on_shards
from archgrad.distributed.processes import processes
from archgrad.distributed.shard import Shard

ROWS = 7
Vector = dict[str, Tensor]
Norm = Callable[..., Tensor]


def textbook_norm(
    x: Tensor, mean: None, variance: None, weight: Tensor | None, bias: Tensor | None, training: bool
) -> Tensor:
    """Normalize in plain functions: PyTorch's third derivatives take the statistics as constants."""
    places = [place for place in range(x.dim()) if place != 1]
    shape = [1, -1, *[1] * (x.dim() - 2)]
    centered = x - x.mean(places, keepdim=True)
    unit = centered * (centered.square().mean(places, keepdim=True) + 1e-5).rsqrt()
    unit = unit if weight is None else unit * weight.view(shape)
    return unit if bias is None else unit + bias.view(shape)


def network(weights: Vector, images: Tensor, mixture: Vector, norm: Norm = F.batch_norm) -> Tensor:
    """Return ``[N, 3]``; one mixture is for all images, the other has a row for each, and one weight is not used."""
    hidden = F.conv2d(images, weights["conv"], padding=1)
    hidden = norm(hidden, None, None, weights["scale"] * mixture["shared"][0, 0], weights["shift"], True)
    hidden = torch.tanh(hidden) * mixture["images"][0, :, 0, 0, None, None, None]
    hidden = norm(hidden, None, None, mixture["shared"][0, 1].expand(4), None, True)
    pooled = norm(torch.sin(hidden).mean((2, 3)), None, None, None, None, True)
    return pooled @ weights["linear"]


def derivatives(local: int = 0) -> dict[str, Tensor | None]:
    """Return the outputs, a gradient, second-derivative products and a third derivative.

    With ``local`` statistics, the batch norms of so many processes know only their own images.
    """
    draws = torch.Generator().manual_seed(5)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws, dtype=torch.float64)

    images, weighing = randn(ROWS, 2, 3, 3) + 2, randn(ROWS, 3)
    weights = {
        "conv": randn(4, 2, 3, 3),
        "scale": randn(4),
        "shift": randn(4),
        "linear": randn(4, 3),
        "unused": randn(2),
    }
    mixture = {"shared": randn(1, 2), "images": randn(1, ROWS, 1, 1)}
    mixture["shared"] = mixture["shared"].view(1, 2, 1)[..., 0]
    inputs = [value.requires_grad_() for value in (*weights.values(), *mixture.values())]
    outputs = _forward(network, weights, images, mixture, local)
    loss = (outputs.square() * weighing).sum() + outputs.prod(1).sum()
    gradients = torch.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
    first = {f"gradient {place}": value for place, value in enumerate(gradients)}
    used = [(value, one) for value, one in zip(inputs, gradients, strict=True) if one is not None]
    along = [randn(*value.shape) for value, _ in used]
    product = sum((one * v).sum() for (_, one), v in zip(used, along, strict=True))
    sources = [value for value, _ in used]
    plain = torch.autograd.grad(product, sources, retain_graph=True)
    second = torch.autograd.grad(product, sources, create_graph=True)
    curvature = sum((one * v).sum() for one, v in zip(second, along, strict=True))
    third = torch.autograd.grad(curvature, sources)
    more = {f"{name} {place}": value for name, values in (("second", second), ("plain second", plain), ("third", third))
            for place, value in enumerate(values)}  # fmt: skip
    return {
        name: value if value is None else value.detach()
        for name, value in {"outputs": outputs, **first, **more}.items()
    }


def _forward(call: Callable[..., Tensor], weights: Vector, images: Tensor, mixture: Vector, local: int) -> Tensor:
    me = processes()
    if me.size == 1 and local:
        parts = [Shard.of(ROWS, rank, local) for rank in range(local)]
        mixtures = [mixture | {"images": part.own(mixture["images"], 1)} for part in parts]
        return torch.cat([call(weights, part.own(images), own) for part, own in zip(parts, mixtures, strict=True)])
    if me.size == 1:
        return call(weights, images, mixture, norm=textbook_norm) if call is network else call(weights, images, mixture)
    own = Shard.of(ROWS, *me).own(images)
    found: Tensor = forward_on_shards(call, weights, own, mixture, ROWS, bool(local))
    return found


def statistics() -> dict[str, Tensor]:
    """Return what users' own batch norms give: with running statistics, of one dimension, and in half precision."""
    torch.manual_seed(0)
    modules = {"2d": torch.nn.BatchNorm2d(3), "1d": torch.nn.BatchNorm1d(3), "half": torch.nn.BatchNorm2d(3).bfloat16()}
    images = torch.randn(ROWS, 3, 4, 4) * 3 + 5
    given = {"2d": images, "1d": images.flatten(2), "half": images.bfloat16()}
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, module in modules.items():
            found[name] = _forward(lambda weights, x, mixture, norm=module: norm(x), {}, given[name], {}, 0)
            found |= {f"{name} {key}": value for key, value in module.state_dict().items()}
    return found
