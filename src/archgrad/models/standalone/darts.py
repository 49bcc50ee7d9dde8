"""The network of two cells in the DARTS form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from archgrad.models.standalone.layers import Edges, FactorizedReduce, ReLUConvBN, stem_layers

INPUT_CHANNELS, CHANNELS, CLASSES = 3, 4, ["a", "b"]
LARGE_IMAGES = False
CELLS: dict[str, tuple[list[tuple[str, int, int]], list[int]]] = {}
LAYERS: list[str] = []
REDUCTIONS: tuple[int, ...] = ()

__all__ = ["Network"]

# ---


class Stem(nn.Module):
    """The layers before the cells of a network for large images, with two outputs."""

    def __init__(self) -> None:
        super().__init__()
        first, second = stem_layers(INPUT_CHANNELS, CHANNELS, large=True)
        self.first, self.second = nn.Sequential(*first), nn.Sequential(*second)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.first(x)
        return before, self.second(before)


class Cell(nn.Module):
    """Two preprocessed inputs, the nodes, and the concatenation of some of them."""

    def __init__(self, name: str, before: int, last: int, width: int, reducing: bool, reduced: bool) -> None:
        super().__init__()
        edges, self.concat = CELLS[name]
        first = FactorizedReduce(before, width) if reduced else ReLUConvBN(before, width, 1)
        self.preprocess = nn.ModuleList([first, ReLUConvBN(last, width, 1)])
        self.cell = Edges(edges, 2, width, reducing)

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        nodes = self.cell([self.preprocess[0](before), self.preprocess[1](last)])
        return torch.cat([nodes[node] for node in self.concat], dim=1)


class Network(nn.Module):
    """A stem, a row of cells that each read the two before, global average pooling and a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        stem = CHANNELS if LARGE_IMAGES else 3 * CHANNELS
        self.stem = Stem() if LARGE_IMAGES else nn.Sequential(*stem_layers(INPUT_CHANNELS, stem, large=False)[0])
        self.cells = nn.ModuleList()
        before, last, width, reduced = stem, stem, CHANNELS, LARGE_IMAGES
        for layer, name in enumerate(LAYERS):
            reducing = layer in REDUCTIONS
            width *= 2 if reducing else 1
            self.cells.append(Cell(name, before, last, width, reducing, reduced))
            before, last, reduced = last, width * len(CELLS[name][1]), reducing
        self.classifier = nn.Linear(last, len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        stem = self.stem(x)
        before, last = stem if LARGE_IMAGES else (stem, stem)
        for cell in self.cells:
            before, last = last, cell(before, last)
        return self.classifier(last.mean((2, 3)))
