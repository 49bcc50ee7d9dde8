"""The auxiliary head of DARTS networks, a second loss in the middle of the network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from archgrad.operations import Site

__all__ = ["AuxiliaryHead", "average_corners"]

_NARROW, _WIDE = 128, 768


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
