"""A trained network with everything that is needed to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.models.classifier import Classifier
from archgrad.models.preprocessing import Preprocessing
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.cost import training_memory
from archgrad.system.memory import check_memory

__all__ = ["Model"]

_USUAL_SIZE = 512


@dataclass(frozen=True, eq=False, repr=False)
class Model(Classifier):
    """The network of a genotype, how its images are prepared, and the names of its classes.

    ``about`` has facts for people, such as accuracies; they are plain values.
    """

    network: nn.Module = field(repr=False)
    space: SearchSpace
    genotype: Genotype
    preprocessing: Preprocessing
    classes: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def logits(self, inputs: Tensor) -> Tensor:
        """Run the network in evaluation mode, on its own device."""
        device = next(self.network.parameters()).device
        self.network.eval()
        with torch.inference_mode():
            outputs: Tensor = self.network(inputs.to(device)).cpu()
        return outputs

    def check_size(self, images: int) -> None:
        """Refuse a batch of so many large images whose activations do not fit into the memory."""
        size = self.preprocessing.image_size
        if size <= _USUAL_SIZE:
            return
        needed = images * training_memory(self.network, self.preprocessing.channels, size) / 2
        check_memory(f"a batch of {images:,} images of {size}×{size} pixels", needed, "use smaller batches or images")

    def __repr__(self) -> str:
        return f"<Model {self._summary}>"

    def _repr_html_(self) -> str:
        """Return a line for notebooks."""
        return f"<p><b>Model</b>: {escape(self._summary)}</p>"

    @property
    def _summary(self) -> str:
        size, images = sum(one.numel() for one in self.network.parameters()), self.preprocessing
        shape = f"{images.channels}×{images.image_size}×{images.image_size} inputs, {len(self.classes)} outputs"
        return f"{self.space.name}, {self.space.channels} channels, {size / 1e6:.3f} M parameters, {shape}"

    def save(self, folder: Path | str) -> Path:
        """Write ``model.json``, ``weights.safetensors`` and a card, ``README.md``, into a folder; return its path."""
        from archgrad.models.model_file import save_model

        return save_model(self, folder)

    @classmethod
    def load(cls, folder: Path | str, *, space: SearchSpace | None = None) -> Model:
        """Read a model from its folder, or from the run directory around it; the network is in evaluation mode.

        A space of your own, which no file can name, must be given again.
        """
        from archgrad.models.model_file import load_model

        return load_model(folder, space)
