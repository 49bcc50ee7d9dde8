"""The network of NAS-Bench-101 around a module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from archgrad.models.standalone.layers import ConvBNReLU, stem_layers

INPUT_CHANNELS, CHANNELS, CLASSES = 3, 4, ["a", "b"]
LARGE_IMAGES = False
OPERATIONS: list[str] = []
SOURCES: list[list[int]] = []
MODULES: list[tuple[int, list[int]]] = []
REDUCTIONS: tuple[int, ...] = ()

__all__ = ["Network"]

# ---


def vertex(name: str, channels: int) -> nn.Module:
    """Return the operation of a vertex."""
    if name == "maxpool3x3":
        return nn.MaxPool2d(3, 1, padding=1)
    return ConvBNReLU(channels, channels, 3 if name.startswith("conv3x3") else 1)


class Module(nn.Module):
    """Vertices that apply an operation to the sum of earlier ones; the output concatenates and adds the projection."""

    def __init__(self, inputs: int, widths: list[int]) -> None:
        super().__init__()
        self.widths = widths
        reading = [number for number, sources in enumerate(SOURCES) if 0 in sources]
        self.projections = nn.ModuleDict({str(number): ConvBNReLU(inputs, widths[number], 1) for number in reading})
        self.operations = nn.ModuleList(vertex(name, widths[number]) for number, name in enumerate(OPERATIONS, 1))

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for number, apply in enumerate(self.operations, start=1):
            states.append(apply(self.total([self.read(source, number, states) for source in SOURCES[number]])))
        last = len(SOURCES) - 1
        parts = [states[source] for source in SOURCES[last] if source]
        terms = [torch.cat(parts, dim=1)] if parts else []
        return self.total(terms + ([self.read(0, last, states)] if 0 in SOURCES[last] else []))

    def read(self, source: int, number: int, states: list[Tensor]) -> Tensor:
        if source == 0:
            return self.projections[str(number)](states[0])
        return states[source][:, : self.widths[number]]

    def total(self, terms: list[Tensor]) -> Tensor:
        return sum(terms[1:], terms[0])


class Network(nn.Module):
    """A stem, a row of modules with max-pooling between the stages, and a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        first, second = stem_layers(INPUT_CHANNELS, CHANNELS, LARGE_IMAGES)
        self.stem = nn.Sequential(*first, *second, nn.ReLU())
        self.layers = nn.ModuleList()
        for number, (inputs, widths) in enumerate(MODULES):
            if number in REDUCTIONS:
                self.layers.append(nn.MaxPool2d(2, ceil_mode=True))
            self.layers.append(Module(inputs, widths))
        self.classifier = nn.Linear(MODULES[-1][1][-1], len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x.mean((2, 3)))
