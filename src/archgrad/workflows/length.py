"""The length of a training that takes so many seconds."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.parts.fields import Count, check_fields

__all__ = ["Length", "length_within"]

FEWEST_EPOCHS = 10
"""The learning rate falls from epoch to epoch: with less time than for so many passes, epochs have fewer images."""
MOST_EPOCHS = 1000
_FEWEST_IMAGES = 128


@dataclass(frozen=True)
class Length:
    """The length of a training: so many epochs of so many images, the next ones in each epoch."""

    epochs: Count
    images: Count

    def __post_init__(self) -> None:
        check_fields(self, "{} of a training")

    @property
    def seen(self) -> int:
        """How many images it sees, with repetition."""
        return self.epochs * self.images

    def settings(self, images: int) -> dict[str, int]:
        """Return the setting with which an epoch has only its part of so many images.

        >>> Length(10, 400).settings(1000), Length(10, 1000).settings(1000)
        ({'weights.epoch_images': 400}, {})
        """
        return {"weights.epoch_images": self.images} if self.images < images else {}


def length_within(seconds: float, rate: float, images: int, classes: int, most: int = MOST_EPOCHS) -> Length:
    """Return the training that takes about so many seconds, at a ``rate`` of images per second.

    >>> length_within(67.0, 300.0, 1000, 10), length_within(60.0, 100.0, 50_000, 10)
    (Length(epochs=20, images=1000), Length(epochs=10, images=600))
    """
    seen = seconds * rate
    if seen >= FEWEST_EPOCHS * images:
        return Length(min(int(seen / images), most), images)
    used = min(max(int(seen / FEWEST_EPOCHS), _FEWEST_IMAGES, 4 * classes), images)
    return Length(max(round(seen / used), 1), used)
