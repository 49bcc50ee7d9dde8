from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_beta_decay import BLOCK, BLOCKS, OTHER
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

from archgrad.regularizers.base import OuterStep
from archgrad.regularizers.dirichlet_kl import DirichletKL


def alpha_of(seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return {b.name: (scale * torch.randn(b.shape, generator=stream, dtype=dtype) * b.mask) for b in BLOCKS}


def term(alpha: dict[str, Tensor], weight: float = 1.0) -> Tensor:
    found = DirichletKL(weight).outer_term(OuterStep(BLOCKS, alpha, {}, {}, 0.5))
    assert found is not None
    return found


def by_torch(alpha: dict[str, Tensor]) -> Tensor:
    """Sum what torch says of every row alone."""
    total = torch.zeros((), dtype=torch.float64)
    for block in (BLOCK, OTHER):
        for row, values in zip(block.rows, alpha[block.name], strict=True):
            beta = F.elu(values[: len(row.choices)]) + 1
            if len(beta) > 1:  # a distribution on one point is itself
                total = total + kl_divergence(Dirichlet(beta), Dirichlet(torch.ones_like(beta)))
    return total


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_divergence_summed_over_rows(seed: int) -> None:
    alpha = {name: value.requires_grad_() for name, value in alpha_of(seed).items()}
    found, wanted = term(alpha), by_torch(alpha)
    torch.testing.assert_close(found, wanted)
    drawn = [alpha["cell"], alpha["other"]]
    for mine, theirs in zip(torch.autograd.grad(found, drawn), torch.autograd.grad(wanted, drawn), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 5.0])
def test_single_precision_loses_nothing_near_the_start(scale: float) -> None:
    single = {name: value.requires_grad_() for name, value in alpha_of(0, scale, torch.float32).items()}
    double = {name: value.detach().double().requires_grad_() for name, value in single.items()}
    assert term(single).dtype == torch.float32
    torch.testing.assert_close(term(single).double(), term(double), rtol=1e-6, atol=0)
    (found,), (wanted,) = (torch.autograd.grad(term(a), a["other"]) for a in (single, double))
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=0)


def test_the_weight_scales_it_and_edges_have_no_part_in_it() -> None:
    alpha = alpha_of(1)
    torch.testing.assert_close(term(alpha, 1e-3), 1e-3 * term(alpha))
    moved = alpha | {"cell.edges": alpha["cell.edges"] + 1.0}
    assert torch.equal(term(moved), term(alpha))
    assert DirichletKL().outer_term(OuterStep((BLOCK.edges,), alpha, {}, {}, 0.5)) is None
    assert DirichletKL().weight == 1e-3
