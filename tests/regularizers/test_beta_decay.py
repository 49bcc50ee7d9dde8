from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import archgrad as ag
from archgrad.arch_optimizers import ExponentiatedGradient
from archgrad.errors import UserError
from archgrad.regularizers import BetaDecay, OuterStep
from archgrad.relaxations import Concrete, GumbelHard, Relaxation, Simplex, Softmax
from archgrad.spaces import DecisionBlock, Row

LENGTHS = (3, 2, 1, 3)
BLOCK = DecisionBlock("cell", 2, tuple(Row(2, i, ("a", "b", "c")[:n]) for i, n in enumerate(LENGTHS)))
OTHER = DecisionBlock("other", 1, (Row(1, 0, ("a", "b", "c", "d")),))
BLOCKS = (BLOCK, OTHER, BLOCK.edges)
ROWS = 6


def alpha_of(seed: int, padding: float = 0.0) -> dict[str, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    drawn = {b.name: torch.randn(b.shape, generator=stream, dtype=torch.float64) for b in BLOCKS}
    return {b.name: drawn[b.name].where(b.mask, torch.tensor(padding).double()).requires_grad_() for b in BLOCKS}


def term(alpha: dict[str, Tensor], weight: float = 50.0, progress: float = 1.0) -> Tensor:
    return BetaDecay(weight).outer_term(OuterStep(BLOCKS, alpha, {}, {}, progress))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("weight", "progress"), [(50.0, 0.0), (50.0, 0.3), (2.0, 1.0)])
def test_it_is_the_mean_log_sum_exp_of_all_rows_growing_with_the_search(
    seed: int, weight: float, progress: float
) -> None:
    alpha = alpha_of(seed)
    rows = [
        math.log(sum(math.exp(a) for a in values[: len(row.choices)]))
        for block in BLOCKS
        for row, values in zip(block.rows, alpha[block.name].tolist(), strict=True)
    ]
    assert len(rows) == ROWS
    assert term(alpha, weight, progress).item() == pytest.approx(progress * weight * sum(rows) / ROWS)


@pytest.mark.parametrize("seed", range(4))
def test_its_gradient_is_the_softmax_over_the_number_of_rows(seed: int) -> None:
    alpha = alpha_of(seed)
    found = torch.autograd.grad(term(alpha, 3.0, 0.5), list(alpha.values()))
    for block, slope in zip(BLOCKS, found, strict=True):
        p = Softmax().probabilities([block], alpha)[block.name]
        torch.testing.assert_close(slope, 1.5 * p / ROWS, rtol=1e-12, atol=1e-15)
        assert not slope[~block.mask].any()


@pytest.mark.parametrize("padding", [7.0, -7.0, float("nan"), float("inf")])
def test_padding_has_no_part_in_it(padding: float) -> None:
    alpha, filled = alpha_of(1), alpha_of(1, padding)
    assert torch.equal(term(alpha), term(filled))
    for slope, block in zip(torch.autograd.grad(term(filled), list(filled.values())), BLOCKS, strict=True):
        assert slope.isfinite().all()
        assert not slope[~block.mask].any()


def test_an_alpha_for_each_image_gives_the_mean_over_them() -> None:
    alphas = [alpha_of(seed) for seed in range(3)]
    wide = {block.name: torch.stack([alpha[block.name] for alpha in alphas]) for block in BLOCKS}
    assert term(wide).item() == pytest.approx(sum(term(alpha).item() for alpha in alphas) / 3)


@pytest.mark.parametrize(
    "relaxation",
    [Simplex(), GumbelHard(domain="simplex"), Concrete(domain="simplex")],
    ids=lambda member: type(member).__name__,
)
def test_parameters_on_the_simplex_are_refused(relaxation: Relaxation) -> None:
    sentence = (
        rf"but {type(relaxation).__name__} keeps α in the 'simplex' domain; use a relaxation of the 'real' domain"
    )
    with pytest.raises(UserError, match=sentence):
        replace(
            ag.recipes.beta_darts(), relaxation=relaxation, arch_optimizer=ExponentiatedGradient(), hypergradient=FIRST
        )


FIRST = ag.hypergradients.FirstOrder()
