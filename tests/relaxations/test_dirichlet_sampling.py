"""Dirichlet samples have the moments of their distribution, and their gradients are those of its expectations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.relaxations import Dirichlet, concentration
from archgrad.spaces import DecisionBlock, Row

DRAWS = 20_000
LENGTHS = (3, 1, 2, 3)


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def block_of(cells: int = DRAWS, lengths: tuple[int, ...] = LENGTHS) -> DecisionBlock:
    return DecisionBlock("cell", cells, tuple(Row(i + 1, 0, ("a", "b", "c")[:n]) for i, n in enumerate(lengths)))


def alpha_of(seed: int, block: DecisionBlock) -> Tensor:
    return torch.randn(block.shape, generator=stream(seed), dtype=torch.float64) * block.mask


def sampled(alpha: Tensor, block: DecisionBlock, seed: int) -> Tensor:
    """Return as many samples ``[cells, rows, choices]`` as the block has cells."""
    member = Dirichlet(per_cell=True)
    return member.relax([block], {"cell": alpha}, member.noise([block], stream(seed)), 0.5).mixture["cell"]


def moments(alpha: Tensor, block: DecisionBlock) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance, m = β/Σβ and m·(1 − m)/(Σβ + 1)."""
    beta = (F.elu(alpha) + 1) * block.mask
    total = beta.sum(-1, keepdim=True)
    mean = beta / total
    return mean, mean * (1 - mean) / (total + 1)


@pytest.mark.parametrize("seed", range(4))
def test_samples_have_the_moments_of_the_distribution(seed: int) -> None:
    block = block_of()
    alpha = alpha_of(seed, block)
    samples = sampled(alpha, block, seed)
    mean, variance = moments(alpha, block)
    assert ((samples.mean(0) - mean).abs() <= 4 * (variance / DRAWS).sqrt()).all()
    squares = (samples - mean).square()
    assert ((squares.mean(0) - variance).abs() <= 4 * squares.std(0) / DRAWS**0.5).all()
    torch.testing.assert_close(Dirichlet().probabilities([block], {"cell": alpha})["cell"], mean)


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_cells_are_drawn_independently(seed: int) -> None:
    block = block_of(lengths=(3, 3))
    samples = sampled(torch.zeros(2, 3, dtype=torch.float64), block, seed)[..., 0]
    centered = samples - samples.mean(0)
    between_rows = (centered[:, 0] * centered[:, 1]).mean() / centered.std(0).prod()
    between_cells = (centered[1:] * centered[:-1]).mean(0) / centered.var(0)
    assert between_rows.abs() < 4 / DRAWS**0.5
    assert (between_cells.abs() < 4 / DRAWS**0.5).all()


@pytest.mark.parametrize("seed", range(3))
def test_gradients_along_the_path_are_those_of_the_expectation(seed: int) -> None:
    """d/dα E[p₁²], with E[p₁²] = β₁(β₁ + 1)/(Σβ(Σβ + 1)) differentiated by central differences."""
    alpha = alpha_of(seed + 10, block_of(lengths=(3, 2)))

    def expectation(at: Tensor, row: int) -> Tensor:
        beta = F.elu(at[row, : 3 - row]) + 1
        return beta[0] * (beta[0] + 1) / (beta.sum() * (beta.sum() + 1))

    # A pair of rows for every draw, to see how the gradients of single draws spread.
    leaf = alpha.repeat(DRAWS, 1).requires_grad_()
    samples = sampled(leaf, block_of(1, (3, 2) * DRAWS), seed)
    (gradient,) = torch.autograd.grad(samples[..., 0].square().sum(), leaf)
    each = gradient.reshape(DRAWS, 2, 3)
    assert not each[:, 1, 2].any()
    for row, choice in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]:
        step = torch.zeros_like(alpha)
        step[row, choice] = 1e-5
        wanted = (expectation(alpha + step, row) - expectation(alpha - step, row)) / 2e-5
        found = each[:, row, choice]
        assert (found.mean() - wanted).abs() <= 4 * found.std() / DRAWS**0.5
        assert found.std() / DRAWS**0.5 < 0.05 * wanted.abs()  # else this would say little


def test_the_only_choice_of_a_row_has_all_its_weight() -> None:
    assert (sampled(alpha_of(0, block_of()), block_of(), 0)[:, 1] == torch.tensor([1.0, 0.0, 0.0])).all()
    block = block_of(cells=2, lengths=(1, 1))
    assert torch.equal(sampled(torch.zeros(2, 1), block, 0), torch.ones(2, 2, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [-300.0, -20.0, -5.0, -3.0, 20.0])
def test_samples_are_positive_and_finite_however_far_the_parameters(dtype: torch.dtype, value: float) -> None:
    block = block_of(cells=2_000)
    alpha = (torch.full(block.shape, value, dtype=dtype) * block.mask).requires_grad_()
    samples = sampled(alpha, block, 0)
    assert samples.dtype == dtype
    assert samples.isfinite().all()
    assert (samples[:, block.mask] > 0).all()
    assert not samples[:, ~block.mask].any()
    torch.testing.assert_close(samples.sum(-1), torch.ones(2_000, len(LENGTHS), dtype=dtype))
    (gradient,) = torch.autograd.grad((samples * torch.rand(samples.shape, generator=stream(1))).sum(), alpha)
    assert gradient.isfinite().all()
    probabilities = Dirichlet().probabilities([block], {"cell": alpha})["cell"]
    assert probabilities.isfinite().all()


def test_the_global_stream_is_neither_read_nor_moved() -> None:
    block = block_of(cells=10)
    alpha = alpha_of(0, block).requires_grad_()
    torch.manual_seed(1)
    first = sampled(alpha, block, 0)
    after = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after)
    assert torch.equal(sampled(alpha, block, 0), first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_concentration_is_elu_plus_one_without_its_cancellation(dtype: torch.dtype) -> None:
    alpha = torch.linspace(-10, 10, 201, dtype=dtype)
    torch.testing.assert_close(concentration(alpha), F.elu(alpha) + 1)
    assert (concentration(torch.tensor([-80.0, -30.0], dtype=dtype)) > 0).all()
    leaf = torch.tensor([-1.0, 0.0, 1.0], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(concentration(leaf).sum(), leaf)
    torch.testing.assert_close(slope, torch.tensor([-1.0, 0.0, 0.0], dtype=dtype).exp())
