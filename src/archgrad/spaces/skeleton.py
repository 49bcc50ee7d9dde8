"""The layers around the cells: stems for small and for large images, and the auxiliary head of DARTS networks."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from archgrad.operations import Site

__all__ = ["AuxiliaryHead", "ImageNetStem", "StemName", "average_corners", "cifar_stem", "single_stem"]

StemName = Literal["cifar", "imagenet"]
"""For images as of CIFAR, or for large ones as of ImageNet."""
_NARROW, _WIDE = 128, 768


def cifar_stem(inputs: int, site: Site) -> nn.Sequential:
    """Return a 3×3 convolution and a batch norm, at full resolution."""
    return nn.Sequential(nn.Conv2d(inputs, site.channels, 3, padding=1, bias=False), site.norm())


class ImageNetStem(nn.Module):
    """Three convolutions of stride 2: from 224 to 28 pixels, as in the DARTS network for ImageNet (Liu et al., 2019).

    The first has half of the channels. A cell with two inputs reads the output of the second and of the third.
    """

    def __init__(self, inputs: int, site: Site) -> None:
        super().__init__()
        width = site.channels
        half = max(1, width // 2)
        self.first = nn.Sequential(
            _strided(inputs, half), site.norm(half), nn.ReLU(), _strided(half, width), site.norm()
        )
        self.second = nn.Sequential(nn.ReLU(), _strided(width, width), site.norm())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return maps of 1/4 and of 1/8 of the resolution."""
        before = self.first(x)
        return before, self.second(before)


def single_stem(name: StemName, inputs: int, site: Site) -> nn.Sequential:
    """Return the stem of a network whose cells have one input; it ends with a batch norm."""
    if name == "cifar":
        return cifar_stem(inputs, site)
    stem = ImageNetStem(inputs, site)
    return nn.Sequential(*stem.first, *stem.second)


def _strided(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)


class AuxiliaryHead(nn.Module):
    """ReLU, pooling to 2×2, 1×1 convolution, 2×2 convolution, linear classifier.

    The head of the DARTS evaluation network (5×5 average pooling with stride 3 on 8×8 maps, or after the stem for
    ``large`` images with stride 2 on 7×7 maps), for maps of any size: see :func:`average_corners`.
    """

    def __init__(self, inputs: int, site: Site, num_classes: int, large: bool = False) -> None:
        super().__init__()
        self.share = (5, 7) if large else (5, 8)
        self.features = nn.Sequential(
            nn.Conv2d(inputs, _NARROW, 1, bias=False),
            site.norm(_NARROW),
            nn.ReLU(),
            nn.Conv2d(_NARROW, _WIDE, 2, bias=False),
            site.norm(_WIDE),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(_WIDE, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[N, inputs, H, W]`` to logits ``[N, classes]``."""
        logits: Tensor = self.classifier(self.features(average_corners(x.relu(), self.share)).flatten(1))
        return logits


def average_corners(x: Tensor, share: tuple[int, int] = (5, 8)) -> Tensor:
    """Average the four corners of ``[N, C, H, W]``, each a ``share`` of the height and width: ``[N, C, 2, 2]``.

    On 8×8 maps, 5/8 is 5×5 pooling with stride 3; on 7×7 maps, 5/7 is 5×5 pooling with stride 2. The corners cover
    every pixel at any size.

    >>> average_corners(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
    tensor([[[[1., 2.],
              [3., 4.]]]])
    """
    height, width = ((share[0] * size + share[1] // 2) // share[1] for size in x.shape[2:])
    halves = (x[:, :, :height], x[:, :, -height:])
    corners = [half[..., columns].mean((2, 3)) for half in halves for columns in (slice(width), slice(-width, None))]
    return torch.stack(corners, dim=-1).reshape(*x.shape[:2], 2, 2)
