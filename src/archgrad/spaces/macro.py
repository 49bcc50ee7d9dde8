"""NAS-Bench-Macro (Su et al., 2021): a chain of eight layers with three choices each, 6,561 architectures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from archgrad.operations import Site
from archgrad.spaces.chain import Chain, Stage, inverted_residuals
from archgrad.spaces.skeleton import single_stem

__all__ = ["Macro"]


@dataclass(frozen=True, kw_only=True)
class Macro(Chain):
    """Stages of 2, 3 and 3 layers with 2C, 4C and 8C channels; the first layer of each has stride 2.

    A layer is a skip connection (with stride 2 a 1×1 convolution and a batch norm), an inverted residual 3×3 with
    expansion 3, or one of 5×5 with expansion 6. The default size is the benchmark's. ``stem`` "imagenet" is for large
    images: it divides the resolution by 8.

    >>> Macro().blocks[0].shape
    (8, 3)
    """

    name: ClassVar[str] = "macro"
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 32}
    stages: ClassVar[tuple[Stage, ...]] = (Stage(2, 2, 2), Stage(3, 4, 2), Stage(3, 8, 2))
    kinds: ClassVar[dict[str, tuple[int, int]]] = inverted_residuals((3, 3), (6, 5))
    skips_at_strides: ClassVar[bool] = True

    def build_stem(self, inputs: int, site: Site) -> nn.Sequential:
        """Return a 3×3 convolution with batch norm and ReLU at full resolution, or the stem for large images."""
        return nn.Sequential(*single_stem(self.stem, inputs, site), nn.ReLU())
