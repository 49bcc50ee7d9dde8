"""First order with the gradient of each image clipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from archgrad.autodiff.tensors import Alpha
from archgrad.errors import UserError
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.first_order import FirstOrder
from archgrad.parts.fields import Positive

__all__ = ["PerExample"]


@dataclass(frozen=True)
class PerExample(FirstOrder):
    """1/N·Σ clip(N·∂L2/∂αₙ, ±bound): ∂L2/∂α, clipped entry by entry for each of the batch's N images (GAEA, C.4).

    XNAS (Nayman et al., 2019) bounds the gradient of each data point in this way. L2 is evaluated once, with an α for
    each image, ``[N, rows, choices]``. L2 must be a mean over images; regularizers add means over rows. If no image
    exceeds the bound, this is the first-order gradient.

    N·∂L2/∂αₙ is the effect of image n's mixture on the whole batch. Without interaction between images it is ∂ℓₙ/∂α,
    the gradient of the image's own loss. In a supernet images interact through batch norm, and ∂ℓₙ/∂α would take a
    backward pass for each image.
    """

    per_image: ClassVar[bool] = True

    bound: Positive = 1.0

    def direct(self, point: EvaluationPoint) -> Alpha:
        """Differentiate the outer loss with respect to every image's α, clip and average."""
        count = _images(point.outer_batch)
        alpha = Alpha({name: torch.stack([value] * count) for name, value in point.alpha.items()})
        found = point.direct(alpha)
        return Alpha({name: (count * value).clamp(-self.bound, self.bound).mean(0) for name, value in found.items()})


def _images(batch: Any) -> int:
    targets = getattr(batch, "targets", None)
    if targets is None:
        raise UserError(
            f"PerExample needs the number of images of the outer batch, but {type(batch).__name__} has no targets; "
            f"give a batch with targets, or use FirstOrder."
        )
    if not len(targets):
        raise UserError("PerExample averages over the images of the outer batch, but it has 0; give at least one.")
    return len(targets)
