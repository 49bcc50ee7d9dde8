"""Keep the training loss from falling below a level, as in β-DARTS++."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.autodiff.tensors import Weights
from archgrad.parts.fields import NonNegative
from archgrad.regularizers.base import Regularizer, WeightStep

__all__ = ["Flooding"]


@dataclass(frozen=True)
class Flooding(Regularizer):
    """Train the weights by |L1 − b| + b, with b = ``level`` (Ishida et al., 2020; in β-DARTS++, Ye et al., 2023).

    Its gradient is sign(L1 − b)·∂L1/∂w: below the level the weights ascend, so that the supernet does not memorise its
    images. L1 is the loss of the batch. The architecture's loss is not flooded. A weight that the batch does not reach,
    as of an operation that was not drawn, still gets no gradient.
    """

    level: NonNegative = 0.1

    def weight_gradient(self, step: WeightStep) -> Weights:
        """Return what turns ∂L1/∂w into the gradient of the flooded loss."""
        factor = (step.value - self.level).sign() - 1
        return Weights({name: factor * one.grad for name, one in step.weights.items() if one.grad is not None})
