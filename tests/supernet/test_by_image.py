"""A mixture for each image of a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.spaces import SPACES
from archgrad.supernet import SupernetOptions
from archgrad.supernet.mixture import split_by_cell
from tests.supernet import supernets
from tests.supernet.supernets import LABELS, Blocks, Mixture, gradients_of, pair

IMAGES = 4
OPTIONS = ("partial", "edge_weights")
CASES = [
    pytest.param("nasbench201", {"channels": 4, "cells_per_stage": 1}, id="nasbench201"),
    pytest.param("nasbench201", {"channels": 4, "cells_per_stage": 1, "partial": 2}, id="nasbench201-2"),
    pytest.param("darts", {"channels": 2, "cells": 3}, id="darts"),
    pytest.param("s4", {"channels": 4, "cells": 3, "partial": 2, "edge_weights": True}, id="s4-2e"),
    pytest.param("amended-a2", {"channels": 2, "cells": 3, "edge_weights": True}, id="amended-a2-edges"),
    pytest.param("nasbench1shot1-2", {"channels": 2, "cells": 3}, id="nasbench1shot1-2"),
    pytest.param("nasbench1shot1-3", {"channels": 4, "cells": 3, "partial": 2}, id="nasbench1shot1-3-2"),
]
every_space = pytest.mark.parametrize(("name", "sizes"), CASES)


def case(name: str, sizes: dict[str, Any]) -> tuple[Blocks, nn.Module, nn.Module]:
    options = SupernetOptions(**{key: value for key, value in sizes.items() if key in OPTIONS})
    space = SPACES.constructor(name)(**{key: value for key, value in sizes.items() if key not in OPTIONS})
    return space.searched_blocks(options), *pair(space, options)


def images() -> Tensor:
    return supernets.images(IMAGES, dtype=torch.float64)


def mixture_of(blocks: Blocks, *by_image: int) -> Mixture:
    found = supernets.mixture_of(blocks, *by_image, dtype=torch.float64)
    return {key: value.detach() for key, value in found.items()}


def spread(mixture: Mixture) -> Mixture:
    return {key: value.unsqueeze(1).repeat(1, IMAGES, 1, 1).requires_grad_() for key, value in mixture.items()}


@every_space
def test_different_mixtures_are_those_of_the_plain_supernet(name: str, sizes: dict[str, Any]) -> None:
    blocks, net, reference = case(name, sizes)
    mixture = {key: value.requires_grad_() for key, value in mixture_of(blocks, IMAGES).items()}
    logits, expected = net(images(), mixture, seed=3), reference(images(), mixture, seed=3)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-11)
    gradients = gradients_of(F.cross_entropy(logits, LABELS), mixture)
    torch.testing.assert_close(gradients, gradients_of(F.cross_entropy(expected, LABELS), mixture))
    assert all(value.flatten(2).any(2).all() for value in gradients.values() if value.shape[0] > 1)


def test_a_mixture_reaches_its_own_image() -> None:
    """One linear cell without batch norms: only the image whose mixture changes is changed, by what it says."""
    _, net, _ = case("nasbench201", {"channels": 4, "cells_per_stage": 1})
    cell = net.body.layers[0]
    weights = torch.zeros(1, IMAGES, 6, 5, dtype=torch.float64)
    weights[:, :, [0, 2, 5], 1] = 1.0  # skip connections 1<-0, 2<-1 and 3<-2
    changed = weights.clone()
    changed[0, 2, 3, 4] = 0.5  # half an average pool 3<-0, for the third image

    x = torch.randn(IMAGES, 4, 5, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def output(weights: Tensor) -> Tensor:
        (view,) = split_by_cell({"cell": (1, 6, 5)}, {"cell": weights}, None, 0, images=IMAGES)["cell"]
        nodes: list[Tensor] = cell([x], view)
        return nodes[-1]

    difference = output(changed) - output(weights)
    torch.testing.assert_close(output(weights), x)
    assert not difference[[0, 1, 3]].any()
    torch.testing.assert_close(difference[2], 0.5 * F.avg_pool2d(x[2], 3, 1, 1, count_include_pad=False))


def test_one_of_two_factors_may_differ_by_image() -> None:
    blocks, net, _ = case("darts", {"channels": 2, "cells": 3, "partial": 2, "edge_weights": True})
    mixture = mixture_of(blocks)
    expected = net(images(), mixture)
    each = spread(mixture)
    for part in ("normal", "reduce", "normal.edges", "reduce.edges"):
        torch.testing.assert_close(net(images(), mixture | {part: each[part]}), expected)


@every_space
def test_marks_hold_for_all_images(name: str, sizes: dict[str, Any]) -> None:
    blocks, net, _ = case(name, sizes)
    mixture, generator = mixture_of(blocks), torch.Generator().manual_seed(5)
    active = {b.name: torch.rand(b.cells, *b.shape, generator=generator) < 0.6 for b in blocks}
    torch.testing.assert_close(
        net(images(), spread(mixture), active=active, seed=3), net(images(), mixture, active=active, seed=3)
    )


def test_second_derivatives_by_image_are_those_of_the_plain_supernet() -> None:
    blocks, net, reference = case("nasbench201", {"channels": 2, "cells_per_stage": 1, "partial": 2})
    mixture = {key: value.requires_grad_() for key, value in mixture_of(blocks, IMAGES).items()}
    products = []
    for each in (net, reference):
        loss = F.cross_entropy(each(images(), mixture), LABELS)
        (first,) = torch.autograd.grad(loss, mixture["cell"], create_graph=True)
        products.append(torch.autograd.grad(first.square().sum(), mixture["cell"])[0])
    torch.testing.assert_close(*products)
    assert products[0].any()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_another_number_of_mixtures_is_explained(count: int) -> None:
    blocks, net, _ = case("nasbench201", {"channels": 2, "cells_per_stage": 1})
    message = (
        rf"'cell' is \(3, {count}, 6, 5\); .* \[3, 6, 5\], or \[3, 4, 6, 5\] with a mixture for each of the 4 images"
    )
    with pytest.raises(UserError, match=message):
        net(images(), mixture_of(blocks, count))
