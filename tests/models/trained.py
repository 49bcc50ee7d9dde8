"""Small models for the tests, as if they were trained."""

from __future__ import annotations

import torch

from archgrad.data import Normalization
from archgrad.discretizers import Argmax
from archgrad.models import Model, Preprocessing
from archgrad.spaces import Genotype, SearchSpace

CLASSES = ("cat", "dog", 'a "quoted" \\ name')


def model_of(space: SearchSpace, seed: int = 0, channels: int = 3) -> Model:
    """Return a model of a random genotype."""
    generator = torch.Generator().manual_seed(seed)
    probabilities = {block.name: torch.rand(block.shape, generator=generator) * block.mask for block in space.blocks}
    return built(space, Argmax().select(space, probabilities), channels)


def built(space: SearchSpace, genotype: Genotype, channels: int = 3) -> Model:
    """Return a model with random weights."""
    torch.manual_seed(0)
    network = space.network(genotype, num_classes=3, input_channels=channels)
    with torch.no_grad():  # running statistics other than 0 and 1
        for _ in range(2):
            network(torch.randn(8, channels, 16, 16))
    images = Preprocessing(channels, 16, Normalization((0.4, 0.5, 0.6)[:channels], (0.2, 0.3, 0.4)[:channels]))
    return Model(network.eval(), space, genotype, images, CLASSES, {"accuracy": 51.5})
