"""The network of NAS-Bench-101 around a module (Ying et al., 2019, Section 2.2), and its cost by a formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.operations import ConvBNReLU, MaxPool, Site, Vocabulary
from archgrad.parts.fields import Count, Range, checked
from archgrad.spaces.cost import Cost, ImageSize, cost
from archgrad.spaces.nasbench101.module import CONV1X1, CONV3X3, MAXPOOL3X3, Module
from archgrad.spaces.skeleton import StemName, single_stem

__all__ = ["VOCABULARY", "ModuleNet", "NASBench101Net", "Skeleton", "vertex_channels"]

VOCABULARY: Vocabulary = {
    MAXPOOL3X3: MaxPool,
    CONV3X3: lambda site: ConvBNReLU(site.channels, site, 3),
    CONV1X1: lambda site: ConvBNReLU(site.channels, site, 1),
}
"""Builders of the operations at vertices."""
_KERNEL = {CONV1X1: 1, CONV3X3: 9}
_SIMPLEST = Module(((0, 1), (0, 0)), ("input", "output"))


def vertex_channels(matrix: Sequence[Sequence[int]], inputs: int, outputs: int) -> tuple[int, ...]:
    """Return the width of every vertex of a pruned module.

    The interior vertices that enter the output share its channels; the first ones get the remainder, one each. Every
    other interior vertex is as wide as the widest interior vertex that it feeds.

    >>> vertex_channels([[0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]], 8, 9)
    (8, 5, 4, 9)
    """
    last = len(matrix) - 1
    interior = range(1, last)
    entering = [vertex for vertex in interior if matrix[vertex][last]]
    if len(entering) > outputs:
        raise UserError(
            f"{len(entering)} vertices share the {outputs} channels of the module's output; "
            f"give the network at least {len(entering)} channels."
        )
    widths = [inputs, *(0 for _ in interior), outputs]
    for number, vertex in enumerate(entering):
        widths[vertex] = outputs // len(entering) + (number < outputs % len(entering))
    for vertex in reversed(interior):
        if vertex not in entering:
            widths[vertex] = max(widths[target] for target in range(vertex + 1, last) if matrix[vertex][target])
    return tuple(widths)


class ModuleNet(nn.Module):
    """One pruned module as a network from ``inputs`` to ``outputs`` channels.

    A vertex adds its inputs and applies its operation. Earlier vertices are truncated to its width; the module's input
    passes its own conv1×1-bn-relu. The output concatenates its inputs, and adds the projected module input if that
    enters it too.
    """

    def __init__(self, module: Module, inputs: int, outputs: int) -> None:
        super().__init__()
        widths = vertex_channels(module.matrix, inputs, outputs)
        self.sources = tuple(module.sources_of(vertex) for vertex in range(module.vertices))
        self.widths = widths
        self.projections = nn.ModuleDict(
            {
                str(vertex): ConvBNReLU(inputs, Site(widths[vertex], searching=False), 1)
                for vertex, sources in enumerate(self.sources)
                if 0 in sources
            }
        )
        self.operations = nn.ModuleList(
            VOCABULARY[module.operations[vertex]](Site(widths[vertex], searching=False))
            for vertex in range(1, module.vertices - 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[N, inputs, H, W]`` to ``[N, outputs, H, W]``."""
        states = [x]
        for vertex, operation in enumerate(self.operations, start=1):
            entering = [self._entering(source, vertex, states) for source in self.sources[vertex]]
            states.append(operation(reduce(add, entering)))
        return self._output(states)

    def _entering(self, source: int, vertex: int, states: list[Tensor]) -> Tensor:
        if source == 0:
            projected: Tensor = self.projections[str(vertex)](states[0])
            return projected
        return states[source][:, : self.widths[vertex]]

    def _output(self, states: list[Tensor]) -> Tensor:
        last = len(self.sources) - 1
        parts = [states[source] for source in self.sources[last] if source]
        projected = [self._entering(0, last, states)] if 0 in self.sources[last] else []
        terms = ([torch.cat(parts, dim=1)] if parts else []) + projected
        return reduce(add, terms)


class NASBench101Net(nn.Module):
    """A stem, ``cells`` copies of the pruned module, global average pooling and a linear classifier.

    Before the modules ``cells // 3`` and ``2 * cells // 3`` a max-pool of stride 2 halves the resolution, and these
    modules double the width. The benchmark's own networks have 128 channels, nine modules and the stem for CIFAR.
    """

    @checked
    def __init__(
        self,
        module: Module,
        channels: Count = 128,
        cells: Annotated[int, Range(3, 1000)] = 9,
        input_channels: Count = 3,
        num_classes: Count = 10,
        stem: StemName = "cifar",
    ) -> None:
        super().__init__()
        self.stem = single_stem(stem, input_channels, Site(channels, searching=False)).append(nn.ReLU())
        pruned = self.module = module.pruned()
        self.layers = nn.ModuleList()
        width = channels
        for cell in range(cells):
            inputs = width
            if cell in (cells // 3, 2 * cells // 3):
                self.layers.append(nn.MaxPool2d(2, ceil_mode=True))
                width *= 2
            self.layers.append(ModuleNet(pruned, inputs, width))
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[N, classes]``."""
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


@dataclass(frozen=True)
class Skeleton:
    """A NAS-Bench-101 network without its modules: their inputs, outputs and pixels, and the cost of all else.

    It counts networks by a formula, as fast as a search that asks for many of them needs it.
    """

    places: tuple[tuple[int, int, int], ...]
    rest: Cost

    @classmethod
    def of(
        cls, channels: int, cells: int, input_channels: int, num_classes: int, stem: StemName, image_size: ImageSize
    ) -> Skeleton:
        """Measure the network of the simplest module; nothing is computed."""
        places: list[tuple[int, int, int]] = []

        def note(part: ModuleNet, inputs: object, output: Tensor) -> None:
            places.append((part.widths[0], part.widths[-1], output[0, 0].numel()))

        with torch.device("meta"):
            network = NASBench101Net(_SIMPLEST, channels, cells, input_channels, num_classes, stem)
        for layer in network.layers:
            if isinstance(layer, ModuleNet):
                layer.register_forward_hook(note)
        total = cost(network, input_channels, image_size)
        inside = cls(tuple(places), Cost(0, 0)).cost(_SIMPLEST)
        return cls(
            tuple(places),
            Cost(total.parameters - inside.parameters, total.multiply_adds - inside.multiply_adds),
        )

    def cost(self, module: Module) -> Cost:
        """Return the cost of the network of a module."""
        pruned, parameters, multiply_adds = module.pruned(), self.rest.parameters, self.rest.multiply_adds
        for inputs, outputs, pixels in self.places:
            widths = vertex_channels(pruned.matrix, inputs, outputs)
            weights = norms = 0
            for vertex in range(1, pruned.vertices):
                width, kernel = widths[vertex], _KERNEL.get(pruned.operations[vertex], 0)
                reads_input = pruned.matrix[0][vertex]
                weights += kernel * width**2 + (inputs * width if reads_input else 0)
                norms += 2 * width * (bool(kernel) + bool(reads_input))
            parameters, multiply_adds = parameters + weights + norms, multiply_adds + weights * pixels
        return Cost(parameters, multiply_adds)
