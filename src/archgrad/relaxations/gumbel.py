"""Gumbel noise on log-probabilities: DSNAS, and with a temperature GDAS and SNAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Probabilities
from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative, Positive, checked
from archgrad.relaxations.base import Domain
from archgrad.relaxations.sampled import Sampled
from archgrad.relaxations.simplex import Simplex
from archgrad.relaxations.softmax import Softmax
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import wide_type

__all__ = ["Concrete", "Gumbel", "GumbelHard", "GumbelNoise", "LogProbability"]

_INIT_SCALE = 1e-3


@dataclass(frozen=True)
class GumbelNoise(Sampled):
    """log p + G with G ~ Gumbel(0, 1): the largest entry is choice o with probability p[o].

    In the domain "real", p = softmax(α) and α starts as ``init_scale`` · N(0, 1). In the domain "simplex", p = α starts
    uniform. A choice of probability 0 is never drawn and gets no gradient.
    """

    domain: Domain = "real"
    per_cell: bool = False
    init_scale: NonNegative = _INIT_SCALE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.domain == "simplex" and self.init_scale != _INIT_SCALE:
            raise UserError(
                f"relaxation.init_scale is {self.init_scale!r}, but in the domain 'simplex' every row starts uniform; "
                f"leave it out, or choose the domain 'real'."
            )

    @checked
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Start as a deterministic relaxation of the same domain does."""
        return self._mean().init(blocks, generator)

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return the probabilities with which choices are drawn."""
        return self._mean().probabilities(blocks, alpha)

    def draw(self, block: DecisionBlock, generator: torch.Generator) -> Tensor:
        """Draw G = −log(−log u), finite in single precision, for every choice of every row."""
        shape = (self.copies(block), *block.shape)
        kind = wide_type(generator.device)
        uniform = torch.rand(shape, generator=generator, dtype=kind, device=generator.device)
        return (-uniform.clamp(min=torch.finfo(kind).eps).log()).log().neg().float()

    def perturbed(self, block: DecisionBlock, alpha: Tensor, noise: Tensor) -> Tensor:
        """Return log p + G, and −∞ where p is 0."""
        absent = ~block.mask_on(alpha.device)
        if self.domain == "real":
            return torch.log_softmax(alpha.masked_fill(absent, -torch.inf), dim=-1) + noise.to(alpha)
        absent = absent | (alpha <= 0)
        return alpha.masked_fill(absent, 1.0).log().masked_fill(absent, -torch.inf) + noise.to(alpha)

    def _mean(self) -> Softmax | Simplex:
        return Softmax(self.init_scale) if self.domain == "real" else Simplex()


@dataclass(frozen=True)
class LogProbability(GumbelNoise):
    """One-hot at a drawn choice s, with the gradient of log p[s] (DSNAS; Hu et al., 2020).

    The weight of s is 1 + log p[s] − ⌊log p[s]⌋, ⌊·⌋ without gradient. So its gradient is a policy gradient whose
    reward is that of the weight, for each edge by itself: ∂L/∂α = ∂L/∂Z[s] · ∂log p[s]/∂α. Only the drawn operation is
    computed. On the simplex, log p[s] depends on α[s] alone, so the gradient has one entry in a row.
    """

    sparse: ClassVar[bool] = True

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return a one-hot mixture with the derivative of the log-probability of what it has drawn."""
        scores = self.perturbed(block, alpha, noise)
        drawn = scores.detach().argmax(-1, keepdim=True)
        likelihood = scores.gather(-1, drawn)
        return torch.zeros_like(scores).scatter(-1, drawn, 1 + likelihood - likelihood.detach())


@dataclass(frozen=True)
class Gumbel(GumbelNoise):
    """softmax((log p + G)/τ); τ goes linearly from ``tau[0]`` to ``tau[1]`` over the search."""

    tau: tuple[Positive, Positive] = (1.0, 1.0)

    def temperature(self, progress: float) -> float:
        """Return τ."""
        return (1 - progress) * self.tau[0] + progress * self.tau[1]


@dataclass(frozen=True)
class GumbelHard(Gumbel):
    """One-hot at argmax(log p + G), with the gradient of softmax((log p + G)/τ) (GDAS; Dong & Yang, 2019).

    Only the drawn operation is computed, and the gradient flows through its weight alone. The published code also adds
    the other weights, which are 0, to every entry of an edge's output, so they receive the sum of its gradient; the
    paper has no such term. τ goes linearly from 10 to 0.1.
    """

    sparse: ClassVar[bool] = True

    tau: tuple[Positive, Positive] = (10.0, 0.1)

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return hard + (soft − detached soft): exactly one-hot, with the derivative of soft."""
        scores = self.perturbed(block, alpha, noise)
        soft = torch.softmax(scores / self.temperature(progress), dim=-1)
        hard = torch.zeros_like(soft).scatter(-1, scores.detach().argmax(-1, keepdim=True), 1.0)
        return hard + (soft - soft.detach())


@dataclass(frozen=True)
class Concrete(Gumbel):
    """softmax((log p + G)/τ), dense, and one-hot as τ → 0 (SNAS; Xie et al., 2019).

    SNAS anneals τ towards 0 but gives no schedule; archgrad goes linearly from 1 to 0.1.
    """

    tau: tuple[Positive, Positive] = (1.0, 0.1)

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return the softmax."""
        return torch.softmax(self.perturbed(block, alpha, noise) / self.temperature(progress), dim=-1)
