"""The first layers of a network: for small images as of CIFAR, or for large ones as of ImageNet."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from archgrad.operations import Site

__all__ = ["ImageNetStem", "StemName", "cifar_stem", "single_stem"]

StemName = Literal["cifar", "imagenet"]


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
