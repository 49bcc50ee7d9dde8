"""From an image to the input of a network: what a model needs to know about its images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from torch import Tensor

from archgrad.data import Normalization
from archgrad.data.resize import ResizeMode, resize
from archgrad.errors import UserError, shortened
from archgrad.parts.fields import Count, Range, check_fields, check_value

__all__ = ["Preprocessing"]


@dataclass(frozen=True)
class Preprocessing:
    """Images are made square (``resize``: "crop", "pad" or "stretch"), resized to ``image_size``, and normalized."""

    channels: Count
    image_size: Annotated[int, Range(1, 10_000)]
    normalization: Normalization
    resize: str = "crop"

    def __post_init__(self) -> None:
        check_fields(self)
        check_value("resize", self.resize, ResizeMode)
        if len(self.normalization.mean) != self.channels:
            raise UserError(
                f"the images have {self.channels} channels, but there are {len(self.normalization.mean)} means; give "
                f"one for each channel."
            )

    def __call__(self, images: Tensor) -> Tensor:
        """Return the network's input for uint8 images ``[N, C, H, W]``; gray ones become color where that is needed."""
        if images.shape[1] == 1 and self.channels == 3:
            images = images.expand(-1, 3, -1, -1)
        if images.shape[1] != self.channels:
            raise UserError(
                f"the images have {images.shape[1]} channels, but the model needs {self.channels}; convert them."
            )
        return self.normalization(resize(images, self.image_size, self.resize))

    def to_dict(self) -> dict[str, Any]:
        """Return plain objects, for JSON."""
        return {
            "channels": self.channels,
            "image_size": self.image_size,
            "resize": self.resize,
            "mean": list(self.normalization.mean),
            "std": list(self.normalization.std),
        }

    @classmethod
    def from_dict(cls, content: Any) -> Preprocessing:
        """Read what :meth:`to_dict` returned; it may come from a stranger."""
        names = ("channels", "image_size", "resize", "mean", "std")
        if not isinstance(content, dict) or set(content) != set(names):
            raise UserError(f"the preprocessing of the model is {shortened(content)}; it must have {', '.join(names)}.")
        for name in ("mean", "std"):
            values = content[name]
            if not isinstance(values, list) or not all(type(one) in (int, float) for one in values):
                raise UserError(f"{name} of the model is {shortened(values)}; it must be a list of numbers.")
        normalization = Normalization(tuple(content["mean"]), tuple(content["std"]))
        return cls(content["channels"], content["image_size"], normalization, content["resize"])
