"""Make the cells of a supernet agree on the architecture: the regularizer of Λ-DARTS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture, Weights
from archgrad.autodiff.vectors import Number, Vector, added, length, scaled
from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative, Positive
from archgrad.regularizers.base import OuterStep, Regularizer, WeightStep
from archgrad.regularizers.gradient_alignment import Kind, aligned_blocks, alignment, directions, pairs
from archgrad.spaces import DecisionBlock

__all__ = ["Difference", "LayerAlignment"]

Difference = Literal["exact", "central", "interleaved"]


@dataclass(frozen=True)
class LayerAlignment(Regularizer):
    """L1 − λ_t·Λ: train the weights so that the cells' gradients ∂L1/∂p align (Movahedi et al., 2023, Eq. 8).

    ``kind`` chooses Λ or Λ±. λ_t = ``weight``·t/T grows with the number t of the epoch, from 1 to all T (Section 4.1),
    or is ``constant``; the published code has ``weight``·(t − 1)/(T − 1). The gradient
    ∇wΛ = 1/C(L,2) · ∂/∂w ⟨∇_P L1, Δ⟩ (Eq. 9) uses the cells' gradients from the weight step's own backward pass.
    ``difference`` chooses how it is computed:

    - ``exact``: one more backward pass, through ⟨∇_P L1, Δ⟩, without ε;
    - ``central``: [∇w L1(P + εΔ) − ∇w L1(P − εΔ)]/2ε with ε = ``eps``/‖Δ‖ (Eq. 13), two more passes;
    - ``interleaved``: [∇w L1(P + εΔ) − ∇w L1(P)]/ε and [∇w L1(P) − ∇w L1(P − εΔ)]/ε at even and odd steps of
      the search (Appendix A.8), one more pass.

    With ``kinks`` "frozen", differences are of the smooth function that L1 is around P. With "crossed" they are those
    of the paper, which also count units that switch between the two ends; in a supernet these outweigh ∇wΛ, and more so
    for a smaller ε.

    ``blocks`` names the blocks to align; by default all that at least two cells share, except ``reduce``. With the
    ``outer`` objective, −λ_t·Λ is a term of L2 and α aligns the cells (Appendix A.4, which advises against it); its
    derivative is exact.
    """

    aligns_cells: ClassVar[bool] = True

    kind: Kind = "cosine"
    weight: NonNegative = 0.125
    eps: Positive = 1e-3
    schedule: Literal["linear", "constant"] = "linear"
    difference: Difference = "interleaved"
    blocks: tuple[str, ...] = ()
    objective: Literal["inner", "outer"] = "inner"
    kinks: Literal["frozen", "crossed"] = "frozen"

    @property
    def needs_mixture_gradient(self) -> bool:
        """Whether it aligns the cells' gradients in the weight step."""
        return self.objective == "inner"

    @property
    def differentiates_gradient(self) -> bool:
        """Whether it differentiates these gradients exactly."""
        return self.objective == "inner" and self.difference == "exact"

    @property
    def freezes_kinks(self) -> bool:
        """Whether it takes differences with frozen kinks."""
        return self.objective == "inner" and self.difference != "exact" and self.kinks == "frozen"

    @property
    def adds_to_outer_loss(self) -> bool:
        """Whether its objective is the outer one."""
        return self.objective == "outer"

    @property
    def differentiates_outer_loss(self) -> bool:
        """Whether its objective is the outer one, whose gradient it uses."""
        return self.objective == "outer"

    def exact(self) -> LayerAlignment:
        """Return the same term with exact derivatives."""
        return replace(self, difference="exact")

    def check_blocks(self, blocks: Sequence[DecisionBlock]) -> None:
        """Reject a space in which no two cells share a decision."""
        if not aligned_blocks(blocks, self.blocks):
            raise UserError(
                "LayerAlignment aligns cells that share their decisions, but in this space no two do; "
                "search with more cells, or in a space that repeats its cells (a chain does not), or leave "
                "LayerAlignment out."
            )

    def strength(self, epoch: int, epochs: int) -> float:
        """Return λ_t in an epoch, counted from 1."""
        return self.weight * epoch / epochs if self.schedule == "linear" else self.weight

    def weight_gradient(self, step: WeightStep) -> Weights | None:
        """Return −λ_t·∇wΛ."""
        strength = self.strength(step.epoch, step.epochs)
        if self.objective == "outer" or not strength or step.mixture_gradient is None:
            return None
        blocks = aligned_blocks(step.blocks, self.blocks)
        delta = directions(step.mixture_gradient, blocks, self.kind)
        size = length(delta)
        if isinstance(size, float) and not size:
            return None
        found = _DIFFERENCES[self.difference](step, delta, self.eps)
        return scaled(found, -strength / pairs(blocks))

    def outer_term(self, step: OuterStep) -> Tensor | None:
        """Return −λ_t·Λ of L2 for the outer objective, else None."""
        strength = self.strength(step.epoch, step.epochs)
        if self.objective == "inner" or not strength or step.loss is None:
            return None
        blocks = aligned_blocks(step.blocks, self.blocks)
        mixtures = [step.mixture[block.name] for block in blocks]
        found = torch.autograd.grad(step.loss, mixtures, create_graph=True, allow_unused=True, materialize_grads=True)
        named = {block.name: _of_all_images(value) for block, value in zip(blocks, found, strict=True)}
        return (-strength * alignment(named, blocks, self.kind)).to(step.loss.dtype)


def _of_all_images(gradient: Tensor) -> Tensor:
    """Sum the gradient over images if each had its own mixture."""
    return gradient.sum(1) if gradient.dim() == 4 else gradient


def _exact(step: WeightStep, delta: Vector, eps: float) -> Weights:
    """Return ∂/∂w ⟨∇_P L1, Δ⟩ by a backward pass through the gradient."""
    gradients = {name: gradient for name, gradient in (step.mixture_gradient or {}).items() if name in delta}
    live = [name for name, gradient in gradients.items() if gradient.requires_grad]
    if not live:  # L1 is a function of P plus a function of w
        return Weights({})
    found = torch.autograd.grad(
        [gradients[name] for name in live],
        list(step.weights.values()),
        [delta[name].to(gradients[name]) for name in live],
        allow_unused=True,
        materialize_grads=True,
    )
    return Weights(dict(zip(step.weights, found, strict=True)))


def _central(step: WeightStep, delta: Vector, eps: float) -> Weights:
    size = length(delta)
    ahead, behind = (_shifted(step, delta, sign * eps / size) for sign in (1, -1))
    return scaled(added(ahead, behind, -1.0), size / (2 * eps))


def _interleaved(step: WeightStep, delta: Vector, eps: float) -> Weights:
    """Return the forward difference at even steps and the backward difference at odd ones."""
    size, sign = length(delta), -1 if step.index % 2 else 1
    aside = _shifted(step, delta, sign * eps / size)
    return scaled(added(aside, step.gradient, -1.0), sign * size / eps)


def _shifted(step: WeightStep, delta: Vector, scale: Number) -> Weights:
    """Return ∇w L1 at P + scale·Δ."""
    mixture = Mixture({name: value.detach() for name, value in step.mixture.items()})
    mixture |= {name: mixture[name] + (scale * shift).to(mixture[name]) for name, shift in delta.items()}
    with torch.enable_grad():
        loss = step.loss(step.weights, mixture)
    found = torch.autograd.grad(loss, list(step.weights.values()), allow_unused=True, materialize_grads=True)
    return Weights(dict(zip(step.weights, found, strict=True)))


_DIFFERENCES: dict[str, Callable[[WeightStep, Vector, float], Weights]] = {
    "exact": _exact,
    "central": _central,
    "interleaved": _interleaved,
}
