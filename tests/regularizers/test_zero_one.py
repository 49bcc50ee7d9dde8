from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import archgrad as ag
from archgrad.errors import UserError
from archgrad.regularizers import OuterStep, ZeroOne
from archgrad.relaxations import Sigmoid
from archgrad.spaces import DecisionBlock, Row

BLOCK = DecisionBlock("cell", 2, tuple(Row(2, i, ("a", "b", "c")[:n]) for i, n in enumerate((3, 2, 1))))
BLOCKS = (BLOCK, BLOCK.edges)


def step(alpha: dict[str, torch.Tensor]) -> OuterStep:
    return OuterStep(BLOCKS, alpha, Sigmoid().probabilities(BLOCKS, alpha), {}, 0.5)


@pytest.mark.parametrize("images", [(), (4,)], ids=["shared", "per-image"])
def test_it_is_minus_the_mean_square_distance_from_one_half(images: tuple[int, ...]) -> None:
    stream = torch.Generator().manual_seed(0)
    alpha = {one.name: torch.randn(*images, *one.shape, generator=stream, dtype=torch.float64) for one in BLOCKS}
    leaves = {name: value.requires_grad_() for name, value in alpha.items()}
    term = ZeroOne(10.0).outer_term(step(leaves))
    real = [leaves[one.name][..., one.mask] for one in BLOCKS]
    entries = torch.cat([one.flatten() for one in real])
    wanted = -10 * sum((1 / (1 + (-a).exp()) - 0.5) ** 2 for a in entries) / len(entries)
    torch.testing.assert_close(term, wanted)
    for one, slope in zip(BLOCKS, torch.autograd.grad(term, list(leaves.values())), strict=True):
        sigma = leaves[one.name].sigmoid()
        by_hand = -20 * (sigma - 0.5) * sigma * (1 - sigma) / len(entries) * one.mask
        torch.testing.assert_close(slope, by_hand)


def test_rows_that_sum_to_one_are_refused() -> None:
    with pytest.raises(UserError, match=r"rows of Softmax sum to one.* use relaxations.Sigmoid"):
        replace(ag.recipes.darts(), regularizers=(ZeroOne(),))
