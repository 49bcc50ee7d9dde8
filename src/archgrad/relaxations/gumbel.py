"""Gumbel noise on log-probabilities: the common base of DSNAS, and with a temperature of GDAS and SNAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

__all__ = ["Gumbel", "GumbelNoise"]

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
class Gumbel(GumbelNoise):
    """softmax((log p + G)/τ); τ goes linearly from ``tau[0]`` to ``tau[1]`` over the search."""

    tau: tuple[Positive, Positive] = (1.0, 1.0)

    def temperature(self, progress: float) -> float:
        """Return τ."""
        return (1 - progress) * self.tau[0] + progress * self.tau[1]
