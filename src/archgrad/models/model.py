"""A trained network with everything that is needed to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.models.preprocessing import Preprocessing
from archgrad.spaces import Genotype, SearchSpace

__all__ = ["Model", "Prediction"]


@dataclass(frozen=True)
class Prediction:
    """The class that a model names for an image, its probability, and the probabilities of all classes in order."""

    label: str
    probability: float
    probabilities: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Model:
    """The network of a genotype, how its images are prepared, and the names of its classes.

    ``about`` has facts for people, such as accuracies; they are plain values.
    """

    network: nn.Module = field(repr=False)
    space: SearchSpace
    genotype: Genotype
    preprocessing: Preprocessing
    classes: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, images: Tensor) -> list[Prediction]:
        """Classify uint8 images ``[N, C, H, W]`` of any size."""
        if images.dtype != torch.uint8 or images.dim() != 4:
            raise UserError(
                f"the images are {images.dtype} {list(images.shape)}; give uint8 [images, channels, height, width]."
            )
        device = next(self.network.parameters()).device
        self.network.eval()
        with torch.inference_mode():
            scores = self.network(self.preprocessing(images).to(device)).softmax(1).cpu()
        return [self._prediction(row.tolist()) for row in scores]

    def _prediction(self, probabilities: list[float]) -> Prediction:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return Prediction(self.classes[best], probabilities[best], tuple(probabilities))

    def save(self, folder: Path | str) -> Path:
        """Write ``model.json`` and ``weights.safetensors`` into a folder, and return its path."""
        from archgrad.models.model_file import save_model

        return save_model(self, folder)

    @classmethod
    def load(cls, folder: Path | str, *, space: SearchSpace | None = None) -> Model:
        """Read a saved model, in evaluation mode; a space of your own, which no file can name, must be given again."""
        from archgrad.models.model_file import load_model

        return load_model(folder, space)
