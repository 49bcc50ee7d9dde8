"""What classifies images: a model in PyTorch, or one that was exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import UserError, shortened
from archgrad.models.preprocessing import Preprocessing

__all__ = ["CLASSES", "Classifier", "Prediction"]

CLASSES = "classes"
"""What ``about["predicts"]`` says of a model that names one class of an image."""


@dataclass(frozen=True)
class Prediction:
    """The class that a model names for an image, its probability, and the probabilities of all classes in order."""

    label: str
    probability: float
    probabilities: tuple[float, ...] = field(repr=False)


class Classifier(ABC):
    """Something that computes logits, with the preprocessing of its images and the names of its classes."""

    preprocessing: Preprocessing
    classes: tuple[str, ...]
    about: Mapping[str, Any]

    @abstractmethod
    def logits(self, inputs: Tensor) -> Tensor:
        """Map inputs ``[N, C, S, S]``, as the preprocessing returns them, to logits ``[N, classes]`` on the CPU."""

    def predict(self, images: Tensor) -> list[Prediction]:
        """Classify uint8 images ``[N, C, H, W]`` of any size."""
        if self.about.get("predicts", CLASSES) != CLASSES:
            raise UserError(
                f"the model was trained for the task {shortened(self.about.get('task'))} and predicts numbers, not one "
                f"class of an image; compute them in Python: model.logits(model.preprocessing(images))."
            )
        if images.dtype != torch.uint8 or images.dim() != 4:
            raise UserError(
                f"the images are {images.dtype} {list(images.shape)}; give uint8 [images, channels, height, width]."
            )
        logits = self.logits(self.preprocessing(images))
        if logits.shape != (len(images), len(self.classes)):
            raise UserError(
                f"the model computes {list(logits.shape)} for {len(images)} images of {len(self.classes)} classes; its "
                f"description does not fit. Get the model again."
            )
        if not bool(logits.isfinite().all()):
            raise UserError("the model computes NaN or infinite outputs; train it again, or get it again.")
        return [self._prediction(row.tolist()) for row in logits.softmax(1)]

    def _prediction(self, probabilities: list[float]) -> Prediction:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return Prediction(self.classes[best], probabilities[best], tuple(probabilities))
