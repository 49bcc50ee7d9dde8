"""The handwritten digits that come with scikit-learn: 1797 gray images of 8×8 pixels."""

from __future__ import annotations

from dataclasses import replace

import torch

from archgrad.data.augment import Augmentation
from archgrad.data.dataset import ImageData, Origin
from archgrad.data.sources.common import limit_and_resize

__all__ = ["digits"]


def digits(*, limit: int | None = None, image_size: int | None = None, seed: int = 0) -> ImageData:
    """Load the digits; nothing is downloaded.

    >>> data = digits(limit=100)
    >>> len(data), data.channels, data.image_size
    (100, 1, 8)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).mul(255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.from_numpy(bunch.target).long()
    data = ImageData("digits", images, labels, tuple(map(str, range(10))), Augmentation(crop_padding=1))
    return replace(limit_and_resize(data, limit, image_size, seed), origin=Origin("digits", limit, image_size, seed))
