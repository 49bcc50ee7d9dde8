"""Plain supernets of chains."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.operations import Site
from archgrad.spaces import Chain
from archgrad.spaces.chain import Layer
from archgrad.supernet import SupernetOptions
from reference.layers import conv, norm, times

__all__ = ["ChainLayer", "ChainNet"]


class _Inverted(nn.Module):
    def __init__(self, place: Layer, expansion: int, size: int) -> None:
        super().__init__()
        hidden = place.inputs * expansion
        self.expand = conv(place.inputs, hidden, 1)
        self.depthwise = conv(hidden, hidden, size, place.stride, groups=hidden)
        self.project = conv(hidden, place.outputs, 1)
        self.norms = [norm(hidden), norm(hidden), norm(place.outputs)]
        self.adds = place.inputs == place.outputs and place.stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.expand(x)))
        y = self.norms[2](self.project(F.relu(self.norms[1](self.depthwise(y)))))
        return x + y if self.adds else y


class _Projection(nn.Module):
    def __init__(self, place: Layer) -> None:
        super().__init__()
        self.conv, self.norm = conv(place.inputs, place.outputs, 1, place.stride), norm(place.outputs)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm(self.conv(x))
        return output


def _skip(place: Layer) -> nn.Module:
    return _Projection(place) if place.first else nn.Identity()


class ChainLayer(nn.Module):
    """y = Σ p·o(x) + skip·(the auxiliary skip connection)."""

    def __init__(self, space: Chain, place: Layer, choices: tuple[str, ...], auxiliary: bool) -> None:
        super().__init__()
        own = [_Inverted(place, *space.kinds[name]) if name in space.kinds else _skip(place) for name in choices]
        self.edges, self.skip = nn.ModuleList([nn.ModuleList(own)]), 0.0
        self.skips = nn.ModuleList([_skip(place)] if auxiliary else [])

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        """Mix by the weights ``[…, choices]`` of the layer's row."""
        mixed = [times(weights[..., at], choice(x)) for at, choice in enumerate(self.edges[0].children())]
        return torch.stack([*mixed, *(self.skip * skip(x) for skip in self.skips)]).sum(0)


class ChainNet(nn.Module):
    """The net of :class:`~archgrad.spaces.chain.ChainNet`, written out."""

    def __init__(self, space: Chain, options: SupernetOptions, num_classes: int, input_channels: int) -> None:
        super().__init__()
        self.stem = space.build_stem(input_channels, Site(space.channels, skeleton=True))
        rows, auxiliary = space.blocks[0].rows, options.auxiliary_skip
        self.layers = nn.ModuleList(
            ChainLayer(space, place, row.choices, auxiliary) for place, row in zip(space.layers, rows, strict=True)
        )
        width = 40 * space.channels
        self.head = nn.Sequential(conv(space.layers[-1].outputs, width, 1), norm(width, affine=True), nn.ReLU())
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, mixture: Mapping[str, Tensor], seed: int, auxiliary: bool) -> Tensor:
        """Return logits."""
        x = self.stem(x)
        for number, layer in enumerate(self.layers):
            x = layer(x, mixture["chain"][0][..., number, :])
        logits: Tensor = self.classifier(self.head(x).mean((2, 3)))
        return logits
