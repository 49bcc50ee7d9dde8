"""Mixtures drawn from a Dirichlet distribution, as in DrNAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Probabilities, check_tensors
from archgrad.parts.fields import NonNegative, checked
from archgrad.relaxations.base import Domain, shapes_of
from archgrad.relaxations.sampled import Sampled
from archgrad.relaxations.softmax import Softmax
from archgrad.spaces import DecisionBlock

__all__ = ["Dirichlet", "concentration"]

_LEAST = 0.01
"""Below this concentration, gamma variates underflow in double precision and distort the distribution."""


@dataclass(frozen=True)
class Dirichlet(Sampled):
    """p[r, ·] ~ Dir(β[r, ·]) with β = elu(α) + 1, over the choices that row r has (DrNAS; Chen et al., 2021).

    The sample is differentiable in β once; its mean is β/Σβ. α starts as ``init_scale`` · N(0, 1), so β ≈ 1 and all
    mixtures are equally likely. The noise of a step is a seed, so the sample is a function of the seed and α. A
    concentration below 0.01 is drawn as 0.01.
    """

    domain: ClassVar[Domain] = "real"

    init_scale: NonNegative = 1e-3
    per_cell: bool = False

    @checked
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Draw small random parameters."""
        return Softmax(self.init_scale).init(blocks, generator)

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return the mean β/Σβ as the softmax of log β, which does not underflow."""
        check_tensors("alpha", alpha, shapes_of(blocks))
        means = Probabilities({})
        for block in blocks:
            logs = torch.where(alpha[block.name] > 0, alpha[block.name].clamp(min=0).log1p(), alpha[block.name])
            means[block.name] = torch.softmax(logs.masked_fill(~block.mask_on(logs.device), -torch.inf), dim=-1)
        return means

    def draw(self, block: DecisionBlock, generator: torch.Generator) -> Tensor:
        """Draw the seed of a block."""
        return torch.randint(2**63 - 1, (), generator=generator, device=generator.device)

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Draw in double precision on the CPU, whatever the type and device of α; restore the global generator."""
        beta = concentration(alpha.cpu().double()).clamp(min=_LEAST)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(noise))
            drawn = _rows(beta, [len(row.choices) for row in block.rows], self.copies(block))
        positive = drawn.clamp(min=torch.finfo(alpha.dtype).tiny).masked_fill(~block.mask, 0.0)
        return positive.to(alpha)


def concentration(alpha: Tensor) -> Tensor:
    """Return β = elu(α) + 1: α + 1 for positive α, else exp α, without cancellation.

    >>> concentration(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0.3679, 1.0000, 3.0000])
    """
    return torch.where(alpha > 0, alpha + 1, alpha.clamp(max=0).exp())


def _rows(beta: Tensor, lengths: Sequence[int], copies: int) -> Tensor:
    """Sample ``[copies, rows, choices]``, all rows of one length together; zero beyond a row's length."""
    pieces, order = [], []
    for length in sorted(set(lengths)):
        rows = [row for row, own in enumerate(lengths) if own == length]
        order += rows
        pieces.append(F.pad(_simplex(beta[rows, :length], copies), (0, beta.shape[1] - length)))
    return torch.cat(pieces, dim=1)[:, torch.tensor(order).argsort()]


def _simplex(beta: Tensor, copies: int) -> Tensor:
    """Sample ``[copies, rows, length]``; the only choice of a row has all its weight."""
    if beta.shape[1] == 1:
        return torch.ones_like(beta).expand(copies, -1, -1)
    return torch.distributions.Dirichlet(beta, validate_args=False).rsample(torch.Size([copies]))
