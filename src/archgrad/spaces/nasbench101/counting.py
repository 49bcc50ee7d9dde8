"""The cost of NAS-Bench-101 networks by a formula, as fast as a search that asks for many of them needs it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.spaces.cost import Cost, ImageSize, cost
from archgrad.spaces.nasbench101.module import CONV1X1, CONV3X3, Module
from archgrad.spaces.nasbench101.network import ModuleNet, NASBench101Net, vertex_channels
from archgrad.spaces.stem import StemName

__all__ = ["Skeleton"]

_KERNEL = {CONV1X1: 1, CONV3X3: 9}
_SIMPLEST = Module(((0, 1), (0, 0)), ("input", "output"))


@dataclass(frozen=True)
class Skeleton:
    """A NAS-Bench-101 network without its modules: their inputs, outputs and pixels, and the cost of all else."""

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
