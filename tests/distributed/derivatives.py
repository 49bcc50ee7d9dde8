"""The derivatives of a small network, in one process or on shards: an image never meets another but in batch norms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.distributed.collectives import counted
from archgrad.distributed.forward import forward_on_shards
from archgrad.distributed.processes import processes
from archgrad.distributed.shard import Shard
from archgrad.hypergradients import Amended, Neumann, Unrolled
from archgrad.operations import DilatedConv, Identity, ReLUConvBN, SeparableConv, Site
from archgrad.supernet.cell import Edge, MixedCell
from archgrad.supernet.mixture import CellMixture

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


def node_derivatives(by_image: bool) -> tuple[dict[str, Tensor], int]:
    """Return a node of eight batch norms, its derivatives to second order, and the collectives of its forward pass."""
    torch.manual_seed(0)
    kinds = (partial(SeparableConv, size=3), partial(DilatedConv, size=3), partial(ReLUConvBN, 2, size=1))
    edges = [Edge(source, 2, (*(kind(site=Site(2)) for kind in kinds), Identity())) for source in (0, 1)]
    cell = MixedCell([*edges[:1], Edge(1, 2, edges[1].operations[:3])], inputs=2, nodes=3).double()
    weights = {name: value.detach().requires_grad_() for name, value in cell.named_parameters()}
    images = torch.randn(ROWS, 2, 4, 4, dtype=torch.float64)
    shape = (1, ROWS, 2, 4) if by_image else (1, 2, 4)
    mixture = {"edges": torch.randn(shape, dtype=torch.float64, requires_grad=True)}

    def node(weights: Vector, x: Tensor, mixture: Vector) -> Tensor:
        rows = mixture["edges"][0].movedim(0, -1) if by_image else mixture["edges"][0]
        own = CellMixture([row.unbind() for row in rows], (0,), by_image=by_image)
        found: Tensor = functional_call(cell, weights, ((x, x.sin()), own))[2]
        return found.tanh().mean((2, 3))

    before = counted.calls
    outputs = _forward(node, weights, images, mixture, 0)
    calls, inputs = counted.calls - before, [*weights.values(), *mixture.values()]
    first = torch.autograd.grad(outputs.prod(1).sum(), inputs, create_graph=True)
    product = sum(one.square().sum() for one in first)
    second = [torch.autograd.grad(product, inputs, create_graph=again, retain_graph=True) for again in (False, True)]
    found = {"outputs": [outputs], "first": first, "second": second[0], "second, differentiable": second[1]}
    return {f"{key} {n}": one.detach() for key, values in found.items() for n, one in enumerate(values)}, calls


def hypergradients() -> Vector:
    """Return estimates at one point of a node with ReLUs and batch norms, by exact products and by differences."""
    torch.manual_seed(0)
    edges = [Edge(source, 2, (ReLUConvBN(2, Site(2), 3), Identity())) for source in (0, 1)]
    cell = MixedCell(edges, inputs=2, nodes=3).double()
    weights = Weights({name: value.detach() for name, value in cell.named_parameters()})
    alpha = Alpha({"edges": torch.randn(2, 2, dtype=torch.float64)})
    inner, outer = ((torch.randn(ROWS, 2, 4, 4, dtype=torch.float64), torch.arange(ROWS) % 2) for _ in range(2))

    def node(weights: Vector, x: Tensor, mixture: Vector) -> Tensor:
        own = CellMixture([row.unbind() for row in mixture["edges"][0]], (0,))
        found: Tensor = functional_call(cell, weights, ((x, x.sin()), own))[2]
        return found.tanh().mean((2, 3))

    def loss(weights: Weights, alpha: Alpha, batch: tuple[Tensor, Tensor]) -> Tensor:
        mixture = {"edges": alpha["edges"].softmax(1)[None]}
        return F.cross_entropy(_forward(node, weights, batch[0], mixture, 0), batch[1])

    point = BilevelProblem(loss, loss), weights, alpha, inner, outer
    descent = Descent(0.1, momentum=0.9, nesterov=True)
    return {
        f"{kind.__name__}, {products}": kind(products=products)(*point, descent=descent)["edges"]
        for kind in (Unrolled, Amended, Neumann)
        for products in ("exact", "finite", "forward")
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
