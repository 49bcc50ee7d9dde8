"""Partial channels and edge weights (PC-DARTS): the fused supernet against the plain one, in double precision."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from archgrad.operations import Identity, Operation
from archgrad.spaces import SPACES
from archgrad.supernet import CellMixture, Edge, MixedCell, SupernetOptions, shuffle
from tests.supernet import supernets
from tests.supernet.supernets import Blocks, Mixture, assert_same_gradients, assert_same_hessian_products, gradients_of

CLASSES = 4
Sizes = dict[str, Any]
SIZES = ("channels", "cells", "cells_per_stage")

BOTH = {"edge_weights": True}
NETS = [
    pytest.param("nasbench201", {"channels": 4, "cells_per_stage": 2, "partial": 2, **BOTH}, 8, id="nasbench201-2e"),
    pytest.param("nasbench201", {"channels": 3, "cells_per_stage": 1, **BOTH}, 8, id="nasbench201-edges"),
    pytest.param("darts", {"channels": 4, "cells": 4, "partial": 2}, 8, id="darts-2"),
    pytest.param("darts", {"channels": 8, "cells": 5, "partial": 4, **BOTH}, 8, id="darts-4e"),
    pytest.param("darts", {"channels": 3, "cells": 3, "partial": 3, **BOTH}, 8, id="darts-all-but-one"),
    pytest.param("s1", {"channels": 4, "cells": 4, "partial": 4, **BOTH}, 8, id="s1-4e"),
    pytest.param("s4", {"channels": 4, "cells": 3, "partial": 2, **BOTH}, 8, id="s4-2e"),
    pytest.param("amended-a1", {"channels": 4, "cells": 3, "partial": 4}, 8, id="amended-a1-4"),
    pytest.param("nasbench1shot1-1", {"channels": 4, "cells": 4, "partial": 4}, 7, id="nasbench1shot1-1-odd"),
    pytest.param("nasbench1shot1-3", {"channels": 4, "cells": 3, "partial": 2, **BOTH}, 8, id="nasbench1shot1-3-2e"),
]
SMALL = [
    pytest.param("nasbench201", {"channels": 2, "cells_per_stage": 1, "partial": 2, **BOTH}, id="nasbench201-2e"),
    pytest.param("nasbench201", {"channels": 2, "cells_per_stage": 1, **BOTH}, id="nasbench201-edges"),
    pytest.param("darts", {"channels": 4, "cells": 3, "partial": 4, **BOTH}, id="darts-4e"),
    pytest.param("s1", {"channels": 2, "cells": 3, "partial": 2}, id="s1-2"),
    pytest.param("amended-a1", {"channels": 2, "cells": 3, "partial": 2, **BOTH}, id="amended-a1-2e"),
    pytest.param("nasbench1shot1-2", {"channels": 4, "cells": 3, "partial": 2, **BOTH}, id="nasbench1shot1-2-2e"),
]
every_small = pytest.mark.parametrize(("name", "sizes"), SMALL)


def pair(name: str, sizes: Sizes) -> tuple[Blocks, nn.Module, nn.Module]:
    """Return the searched blocks of a space, its fused supernet and the plain one with the same weights."""
    options = SupernetOptions(**{key: value for key, value in sizes.items() if key not in SIZES})
    space = SPACES.constructor(name)(**{key: value for key, value in sizes.items() if key in SIZES})
    return space.searched_blocks(options), *supernets.pair(space, options, CLASSES, channels=2)


def batch(size: int, count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 2, size, size, generator=generator, dtype=torch.float64)
    return images, torch.randint(CLASSES, (count,), generator=generator)


def mixture_of(blocks: Blocks) -> Mixture:
    return supernets.mixture_of(blocks, dtype=torch.float64)


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_shuffle_deals_the_groups_out_in_turn(groups: int, layout: torch.memory_format) -> None:
    x = torch.randn(2, 12, 3, 5, generator=torch.Generator().manual_seed(0)).contiguous(memory_format=layout)
    shuffled = shuffle(x, groups)
    expected = x.reshape(2, groups, 12 // groups, 3, 5).transpose(1, 2).reshape(2, 12, 3, 5)
    assert torch.equal(shuffled, expected)
    assert shuffled.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(shuffle(shuffled, 12 // groups), x)  # dealt out and collected again


def test_shuffle_is_differentiable_twice() -> None:
    x = torch.randn(2, 6, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)

    def cubed(x: Tensor) -> Tensor:
        return shuffle(x**3, 3)

    assert torch.autograd.gradcheck(cubed, x)
    assert torch.autograd.gradgradcheck(cubed, x)


@pytest.mark.parametrize(("name", "sizes", "image_size"), NETS)
def test_logits_and_all_gradients_are_the_plain_ones(name: str, sizes: Sizes, image_size: int) -> None:
    blocks, fused, reference = pair(name, sizes)
    images, labels = batch(image_size)
    assert_same_gradients(fused, reference, images, labels, mixture_of(blocks))


@every_small
def test_hessian_products_are_the_plain_ones(name: str, sizes: Sizes) -> None:
    blocks, fused, reference = pair(name, sizes)
    images, labels = batch(8 if name == "nasbench201" else 4, count=3)
    assert_same_hessian_products(fused, reference, images, labels, mixture_of(blocks))


def marks_of(blocks: Blocks, chance: float, seed: int = 3) -> Mixture:
    generator = torch.Generator().manual_seed(seed)
    return {b.name: torch.rand(b.cells, *b.shape, generator=generator) < chance for b in blocks}


@every_small
@pytest.mark.parametrize("which", ["operations", "edges", "all"])
def test_inactive_entries_of_operations_and_edges_count_as_zero(name: str, sizes: Sizes, which: str) -> None:
    blocks, fused, _ = pair(name, sizes)
    mixture, active = mixture_of(blocks), marks_of(blocks, 0.6)
    active = {key: value for key, value in active.items() if which in ("all", ["operations", "edges"][".edges" in key])}
    silenced = {
        key: (value * active[key] if key in active else value).detach().requires_grad_()
        for key, value in mixture.items()
    }
    images, _ = batch(8)
    logits, expected = fused(images, mixture, active=active), fused(images, silenced)
    torch.testing.assert_close(logits, expected)
    gradients, wanted = gradients_of(logits.square().sum(), mixture), gradients_of(expected.square().sum(), silenced)
    for key, marks in active.items():
        assert not gradients[key][~marks].any()
        if not (".edges" in key or f"{key}.edges" in active):
            torch.testing.assert_close(gradients[key][marks], wanted[key][marks])


@pytest.mark.parametrize("partial", [1, 2])
def test_an_inactive_edge_computes_nothing(partial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, fused, _ = pair("nasbench201", {"channels": 4, "cells_per_stage": 1, "partial": partial, **BOTH})
    ran: list[int] = []
    for cell in (0, 2, 4):
        for index, edge in enumerate(fused.body.layers[cell].edges):
            for operation in edge:
                method = operation.mixed
                monkeypatch.setattr(
                    operation, "mixed", lambda source, weight, m=method, i=index: (ran.append(i), m(source, weight))[1]
                )
    active = {"cell.edges": torch.ones(3, 3, 3, dtype=torch.bool)}
    active["cell.edges"][:, 1, 0] = active["cell.edges"][:, 2, 1] = False  # 2<-0 and 3<-1
    mixture = mixture_of(blocks)
    logits = fused(batch(8)[0], mixture, active=active)
    assert Counter(ran) == {0: 15, 2: 15, 3: 15, 5: 15}
    gradients = gradients_of(logits.square().sum(), mixture)
    assert not gradients["cell"][:, [1, 4]].any()
    assert gradients["cell"][:, [0, 2, 3, 5], 1:].all()


def cell_of() -> MixedCell:
    return MixedCell([Edge(0, 1, (Identity(), Identity()), 1, 2)], inputs=1, nodes=2)


def test_a_pruned_edge_passes_nothing() -> None:
    x = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    gone = CellMixture([[torch.tensor(0.0), torch.tensor(0.0)]], (0, "cell", 0))
    inactive = CellMixture([[None, None]], (0, "cell", 0))
    for mixture in (gone, inactive):
        assert torch.equal(cell_of()([x], mixture)[1], torch.zeros_like(x))
    half = CellMixture([[torch.tensor(0.5), None]], (0, "cell", 0))
    assert torch.equal(cell_of()([x], half)[1], 0.5 * shuffle(x, 2))


def test_what_goes_past_is_no_reason_to_change_the_mixture() -> None:
    """Without edge weights β is a constant: the mixture's gradient is that of the computed channels alone."""
    x = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    weights = [torch.tensor(0.3, requires_grad=True), torch.tensor(0.7, requires_grad=True)]
    node = cell_of()([x], CellMixture([weights], (0, "cell", 0)))[1]
    torch.testing.assert_close(node, shuffle(x, 2))
    for gradient in torch.autograd.grad(node.sum(), weights):
        torch.testing.assert_close(gradient, x[:, :2].sum())


def test_drop_path_spares_what_goes_past() -> None:
    class Half(Operation):
        def forward(self, x: Tensor) -> Tensor:
            return 0.5 * x

    x = torch.randn(64, 4, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cell = MixedCell([Edge(0, 1, (Half(),), 1, 2)], inputs=1, nodes=2)
    one = torch.ones((), dtype=torch.float64)
    node = shuffle(cell([x], CellMixture([[one]], (5, "cell", 0), 0.25))[1], 2)  # the inverse, for two groups of two
    torch.testing.assert_close(node[:, 2:], x[:, 2:])
    factors = (node[:, :2] / x[:, :2]).flatten(1)
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    kept = factors[:, 0].round(decimals=9)
    assert {round(value, 6) for value in kept.tolist()} == {0.0, round(0.5 / 0.75, 6)}
    assert 4 <= int((kept == 0).sum()) <= 30
