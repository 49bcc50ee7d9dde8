"""The handwritten digits that come with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import torch

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions
from archgrad.data.dataset import ImageData
from archgrad.data.sources.base import DataSource
from archgrad.errors import NoTestImagesError

__all__ = ["Digits"]


class Digits(DataSource):
    """1797 handwritten digits, gray, 8×8, 10 classes; comes with scikit-learn.

    >>> data = Digits()(limit=100)
    >>> len(data), data.channels, data.image_size
    (100, 1, 8)
    """

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the images; nothing is downloaded."""
        from sklearn.datasets import load_digits

        if not options.train:
            raise NoTestImagesError("the digits have no test images; hold some out with archgrad.data.split.")
        bunch = load_digits()
        images = torch.from_numpy(bunch.images).mul(255 / 16).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(bunch.target).long()
        data = ImageData("digits", images, labels, tuple(map(str, range(10))), Augmentation(crop_padding=1))
        return options.apply(data)
