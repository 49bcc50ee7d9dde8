"""Augmentation against a plain loop over the images."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from archgrad.data import Augmentation
from archgrad.errors import UserError


def plain_loop(augmentation: Augmentation, images: Tensor, seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    batch, _, height, width = images.shape
    padding, out = augmentation.crop_padding, torch.zeros_like(images)

    def draw(upper: int) -> list[int]:
        return torch.randint(upper, (batch, 1), generator=draws).flatten().tolist()

    moved = bool(padding or augmentation.flip)
    tops = draw(2 * padding + 1) if moved else [0] * batch
    lefts = draw(2 * padding + 1) if moved else [0] * batch
    mirrored = draw(2) if augmentation.flip else [0] * batch
    for b in range(batch):
        for y in range(height):
            for x in range(width):
                source_y = y + tops[b] - padding
                source_x = (width - 1 - x if mirrored[b] else x) + lefts[b] - padding
                if 0 <= source_y < height and 0 <= source_x < width:
                    out[b, :, y, x] = images[b, :, source_y, source_x]
    if augmentation.cutout:
        centers_y, centers_x = draw(height), draw(width)
        half = augmentation.cutout // 2
        for b in range(batch):
            top, bottom = max(0, centers_y[b] - half), min(height, centers_y[b] + half)
            left, right = max(0, centers_x[b] - half), min(width, centers_x[b] + half)
            out[b, :, top:bottom, left:right] = 0
    return out


@pytest.mark.parametrize(
    "augmentation",
    [
        Augmentation(),
        Augmentation(crop_padding=2),
        Augmentation(flip=True),
        Augmentation(cutout=4),
        Augmentation(crop_padding=4, flip=True, cutout=6),
    ],
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_equals_the_plain_loop(augmentation: Augmentation, layout: torch.memory_format) -> None:
    images = torch.randn(9, 3, 8, 10).contiguous(memory_format=layout)
    before = images.clone()
    result = augmentation(images, torch.Generator().manual_seed(5))
    assert torch.equal(result, plain_loop(augmentation, images, 5))
    assert torch.equal(images, before)


def test_every_place_and_both_directions_are_drawn() -> None:
    images = torch.arange(1.0, 10.0).view(1, 1, 3, 3).expand(2000, -1, -1, -1)
    moved = Augmentation(crop_padding=1, flip=True)(images, torch.Generator().manual_seed(0))
    assert len(moved.flatten(1).unique(dim=0)) == 9 * 2
    mirrored = Augmentation(flip=True)(images, torch.Generator().manual_seed(0))[:, 0, 0, 0] == 3
    assert 900 < int(mirrored.sum()) < 1100


def test_move_works_on_bytes() -> None:
    images = torch.randint(1, 256, (4, 3, 8, 8), dtype=torch.uint8)
    augmentation = Augmentation(crop_padding=2, flip=True)
    moved = augmentation.move(images, torch.Generator().manual_seed(1))
    assert moved.dtype == torch.uint8
    assert torch.equal(moved.float(), augmentation.move(images.float(), torch.Generator().manual_seed(1)))


def test_scaling_keeps_what_is_off_off() -> None:
    assert Augmentation(4, True, 16).scaled(32, 16) == Augmentation(2, True, 8)
    assert Augmentation(4, True).scaled(32, 4) == Augmentation(1, True)
    assert Augmentation().scaled(32, 16) == Augmentation()


def test_negative_pixels_are_refused() -> None:
    with pytest.raises(UserError, match="crop_padding is -1"):
        Augmentation(crop_padding=-1)
