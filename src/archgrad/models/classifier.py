"""What predicts something of images: a model in PyTorch, or one that was exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.models.preprocessing import Preprocessing
from archgrad.parts.fields import Probability, check_value
from archgrad.system.memory import check_memory

__all__ = [
    "CLASSES",
    "LABELS",
    "NUMBERS",
    "AnyPrediction",
    "Classifier",
    "LabelsPrediction",
    "NumbersPrediction",
    "Prediction",
]

CLASSES, LABELS, NUMBERS = "classes", "labels", "numbers"
"""What ``about["predicts"]`` says of a model: it names one class of an image, any number of labels, or numbers."""


@dataclass(frozen=True)
class Prediction:
    """The class that a model names for an image, its probability, and the probabilities of all classes in order."""

    label: str
    probability: float
    probabilities: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class LabelsPrediction:
    """The labels whose probabilities are above the threshold of the task, and the probabilities of all labels."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class NumbersPrediction:
    """The outputs of a network for an image."""

    numbers: tuple[float, ...]


class Classifier(ABC):
    """Something that computes logits, with the preprocessing of its images and the names of its classes."""

    preprocessing: Preprocessing
    classes: tuple[str, ...]
    about: Mapping[str, Any]

    @abstractmethod
    def logits(self, inputs: Tensor) -> Tensor:
        """Map inputs ``[N, C, S, S]``, as the preprocessing returns them, to logits ``[N, classes]`` on the CPU."""

    def check_size(self, images: int) -> None:
        """Refuse a batch of so many images that does not fit into the memory."""
        about = self.preprocessing
        needed = 4 * images * about.channels * about.image_size**2
        check_memory(f"a batch of {images} images of {about.image_size} pixels a side", needed, "use smaller batches")

    def predict(self, images: Tensor) -> list[AnyPrediction]:
        """Predict the class, the labels or the numbers of uint8 images ``[N, C, H, W]`` of any size."""
        kind = self.about.get("predicts", CLASSES)
        check_value("predicts of the model", kind, Literal["classes", "labels", "numbers"])
        if images.dtype != torch.uint8 or images.dim() != 4:
            raise UserError(
                f"the images are {images.dtype} {list(images.shape)}; give uint8 [images, channels, height, width]."
            )
        logits = self.logits(self.preprocessing(images))
        if not logits.is_floating_point():
            raise UserError(f"the model computes {logits.dtype}; its outputs must be floating-point. Export it again.")
        if logits.shape != (len(images), len(self.classes)):
            raise UserError(
                f"the model computes {list(logits.shape)} for {len(images)} images of {len(self.classes)} classes; its "
                f"description does not fit. Get the model again."
            )
        if not bool(logits.isfinite().all()):
            raise UserError("the model computes NaN or infinite outputs; train it again, or get it again.")
        if kind == NUMBERS:
            return [NumbersPrediction(tuple(row.tolist())) for row in logits]
        if kind == LABELS:
            return [self._labels(row.tolist()) for row in logits.sigmoid()]
        return [self._prediction(row.tolist()) for row in logits.softmax(1)]

    def _labels(self, probabilities: list[float]) -> LabelsPrediction:
        threshold = self.about.get("threshold", 0.5)
        check_value("threshold of the model", threshold, Probability)
        pairs = zip(self.classes, probabilities, strict=True)
        return LabelsPrediction(tuple(name for name, one in pairs if one > threshold), tuple(probabilities))

    def _prediction(self, probabilities: list[float]) -> Prediction:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return Prediction(self.classes[best], probabilities[best], tuple(probabilities))


AnyPrediction = Prediction | LabelsPrediction | NumbersPrediction
