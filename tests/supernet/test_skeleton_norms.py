"""Batch norms have affine parameters in the skeleton and none inside cells, as in the published search code."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.spaces import SPACES
from archgrad.supernet import Supernet

NB201 = {"stem.1", "layers.1.first.norm", "layers.1.second.norm", "layers.3.first.norm", "layers.3.second.norm", "norm"}
DARTS, ONE_SHOT = {"stem.1"}, {"stem.1"}
AMENDED = {"stem.1", "auxiliary.features.1", "auxiliary.features.4"}


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("nasbench201", {"cells_per_stage": 1}, NB201),
        ("darts", {"cells": 3}, DARTS),
        ("s2", {"cells": 3}, DARTS),
        ("amended-a1", {"cells": 3}, AMENDED),
        ("nasbench1shot1-1", {"cells": 3}, ONE_SHOT),
    ],
)
def test_norms_with_affine_parameters_are_those_of_the_skeleton(
    name: str, sizes: dict[str, int], expected: set[str]
) -> None:
    supernet = SPACES.constructor(name)(channels=2, **sizes).supernet()
    norms = {key.removeprefix("body."): one for key, one in supernet.named_modules() if isinstance(one, nn.BatchNorm2d)}
    assert {key for key, norm in norms.items() if norm.affine} == expected
    assert not any(norm.track_running_stats for norm in norms.values())


def normed(x: Tensor, weights: dict[str, Tensor], name: str | None = None) -> Tensor:
    """Normalize by the batch, with the affine parameters of this name if there is one."""
    unit = (x - x.mean((0, 2, 3), keepdim=True)) / (x.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5).sqrt()
    if name is None:
        return unit
    return unit * weights[f"{name}.weight"].view(1, -1, 1, 1) + weights[f"{name}.bias"].view(1, -1, 1, 1)


def plain_nasbench201(x: Tensor, weights: dict[str, Tensor], mixture: Tensor) -> Tensor:
    """Return the logits of the published search network with one cell per stage, written out from its weights."""
    x = normed(F.conv2d(x, weights["stem.0.weight"], padding=1), weights, "stem.1")
    for stage in range(3):
        if stage:
            block = f"layers.{2 * stage - 1}"
            inner = F.conv2d(F.relu(x), weights[f"{block}.first.conv.weight"], stride=2, padding=1)
            inner = F.relu(normed(inner, weights, f"{block}.first.norm"))
            inner = F.conv2d(inner, weights[f"{block}.second.conv.weight"], padding=1)
            x = normed(inner, weights, f"{block}.second.norm") + F.conv2d(
                F.avg_pool2d(x, 2), weights[f"{block}.shortcut.weight"]
            )
        x = plain_cell(x, weights, f"layers.{2 * stage}", mixture[stage])
    return F.linear(
        F.relu(normed(x, weights, "norm")).mean((2, 3)), weights["classifier.weight"], weights["classifier.bias"]
    )


def plain_cell(x: Tensor, weights: dict[str, Tensor], cell: str, mixture: Tensor) -> Tensor:
    nodes, edge = [x], 0
    for target in range(1, 4):
        total = torch.zeros_like(x)
        for source in range(target):
            y, p = nodes[source], mixture[edge]
            kernels = [weights[f"{cell}.edges.{edge}.{place}.conv.weight"] for place in (2, 3)]
            convolved = [
                normed(F.conv2d(F.relu(y), kernel, padding=kernel.shape[-1] // 2), weights) for kernel in kernels
            ]
            pooled = F.avg_pool2d(y, 3, 1, 1, count_include_pad=False)
            total = total + p[1] * y + p[2] * convolved[0] + p[3] * convolved[1] + p[4] * pooled
            edge += 1
        nodes.append(total)
    return nodes[-1]


def randomized(supernet: Supernet) -> Supernet:
    torch.manual_seed(1)
    for parameter in supernet.parameters():
        nn.init.normal_(parameter, 0.2, 0.5)
    return supernet


def test_the_supernet_of_nasbench201_is_the_published_network_with_the_same_weights() -> None:
    supernet = randomized(SPACES.create("nasbench201", channels=3, cells_per_stage=1).supernet(num_classes=4).double())
    weights = {name.removeprefix("body."): value for name, value in supernet.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(5, 3, 8, 8, generator=generator, dtype=torch.float64)
    mixture = torch.randn(3, 6, 5, generator=generator, dtype=torch.float64).softmax(-1).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3, 0])
    inputs = [*supernet.parameters(), mixture]
    logits, expected = supernet(images, {"cell": mixture}), plain_nasbench201(images, weights, mixture)
    torch.testing.assert_close(logits, expected, rtol=1e-11, atol=1e-12)
    found, wanted = (torch.autograd.grad(F.cross_entropy(one, labels), inputs) for one in (logits, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-11)
