"""Plain supernets of spaces whose operations sit on edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.spaces.darts import DARTS
from archgrad.spaces.nasbench201 import NASBench201
from archgrad.spaces.space import SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.system.random_streams import StreamKey
from reference.layers import (
    FactorizedReduce,
    Noise,
    ReLUConvBN,
    conv,
    norm,
    operation,
    shuffled,
    times,
)

__all__ = ["Cell", "DARTSNet", "StagedNet"]


class Cell(nn.Module):
    """Σ β·shuffle(Σ p·o(x₁) ‖ x₂) + shuffle(skip·x₁ ‖ 0) at every node, one operation after the other."""

    def __init__(
        self,
        space: SearchSpace,
        options: SupernetOptions,
        block: str,
        channels: int,
        inputs: int,
        strided: bool,
        normed_pools: bool,
    ) -> None:
        super().__init__()
        rows, partial = space.block(block).rows, options.partial
        self.rows, self.inputs, self.partial, self.skip = rows, inputs, partial, 0.0
        self.strides = [2 if strided and row.source in range(inputs) else 1 for row in rows]
        self.edges = nn.ModuleList()
        for index, (row, stride) in enumerate(zip(rows, self.strides, strict=True)):
            operations = [operation(name, channels // partial, stride, index, normed_pools) for name in row.choices]
            self.edges.append(nn.ModuleList(operations))
        adds = isinstance(space, DARTS) and space.adds_skips
        self.added = nn.ModuleList(
            operation("skip_connect", channels // partial, stride, index, normed_pools)
            for index, stride in enumerate(self.strides if adds else [])
        )
        self.skips = nn.ModuleList(
            operation("skip_connect", channels // partial, stride, index, normed_pools)
            for index, stride in enumerate(self.strides if options.auxiliary_skip else [])
        )

    def forward(self, inputs: Sequence[Tensor], weights: _Weights, stream: StreamKey) -> list[Tensor]:
        """Return all nodes; ``inputs`` are the first ones."""
        nodes = list(inputs)
        for module in self.modules():
            if isinstance(module, Noise):
                module.stream = stream
        for number, target in enumerate(dict.fromkeys(row.target for row in self.rows)):
            edges = [index for index, row in enumerate(self.rows) if row.target == target]
            terms = []
            for place, edge in enumerate(edges):
                term = self._edge(edge, nodes[self.rows[edge].source or 0], weights.operations)
                terms.append(term if weights.edges is None else times(weights.edges[..., number, place], term))
                if len(self.skips):
                    terms.append(self.skip * self._auxiliary(edge, nodes[self.rows[edge].source or 0]))
            nodes.append(sum(terms[1:], terms[0]))
        return nodes

    def _edge(self, edge: int, x: Tensor, weights: Tensor) -> Tensor:
        if self.partial == 1:
            return self._mix(edge, x, weights)
        width = x.shape[1] // self.partial
        mixed, rest = self._mix(edge, x[:, :width], weights), x[:, width:]
        if self.strides[edge] == 2:
            rest = F.max_pool2d(rest, 2, 2, ceil_mode=True)
        return shuffled(torch.cat([mixed, rest], 1), self.partial)

    def _auxiliary(self, edge: int, x: Tensor) -> Tensor:
        carried: Tensor = self.skips[edge](x[:, : x.shape[1] // self.partial])
        return shuffled(torch.cat([carried, *[torch.zeros_like(carried)] * (self.partial - 1)], 1), self.partial)

    def _mix(self, edge: int, x: Tensor, weights: Tensor) -> Tensor:
        operations = cast("nn.ModuleList", self.edges[edge])
        outputs = [module(x) + self.added[edge](x) if len(self.added) else module(x) for module in operations]
        terms = [times(weights[..., edge, choice], output) for choice, output in enumerate(outputs)]
        return sum(terms[1:], terms[0])


class _Weights(NamedTuple):
    """The mixture of one cell: of its operations, and of its edges if the space weighs them."""

    operations: Tensor
    edges: Tensor | None


def _weights(mixture: Mapping[str, Tensor], block: str, cell: int) -> _Weights:
    edges = mixture.get(f"{block}.edges")
    return _Weights(mixture[block][cell], None if edges is None else edges[cell])


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = ReLUConvBN(inputs, outputs, 3, 2, affine=True)
        self.second = ReLUConvBN(outputs, outputs, 3, affine=True)
        self.shortcut = conv(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False)
        output: Tensor = self.second(self.first(x)) + self.shortcut(pooled)
        return output


class StagedNet(nn.Module):
    """Three stages of cells with residual blocks between them, as in NAS-Bench-201."""

    def __init__(self, space: NASBench201, options: SupernetOptions, num_classes: int, input_channels: int) -> None:
        super().__init__()
        width = space.channels
        self.stem = nn.Sequential(conv(input_channels, width, 3), norm(width, affine=True))
        self.layers = nn.ModuleList()
        for stage in range(3):
            if stage:
                self.layers.append(_Residual(width, 2 * width))
                width *= 2
            for _ in range(space.cells_per_stage):
                self.layers.append(Cell(space, options, "cell", width, 1, False, False))
        self.norm = norm(width, affine=True)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, mixture: Mapping[str, Tensor], seed: int, auxiliary: bool) -> Tensor:
        """Return logits."""
        x, cell = self.stem(x), 0
        for layer in self.layers:
            if isinstance(layer, Cell):
                x = layer([x], _weights(mixture, "cell", cell), (seed, "cell", cell))[-1]
                cell += 1
            else:
                x = layer(x)
        output: Tensor = self.classifier(F.relu(self.norm(x)).mean((2, 3)))
        return output


class _DARTSCell(nn.Module):
    def __init__(
        self,
        space: DARTS,
        options: SupernetOptions,
        block: str,
        inputs: tuple[int, int],
        width: int,
        reducing: bool,
        reduced: bool,
    ) -> None:
        super().__init__()
        first = FactorizedReduce(inputs[0], width) if reduced else ReLUConvBN(inputs[0], width, 1)
        self.preprocess = nn.ModuleList([first, ReLUConvBN(inputs[1], width, 1)])
        self.cell = Cell(space, options, block, width, 2, reducing, True)

    def forward(self, before: Tensor, last: Tensor, weights: _Weights, stream: StreamKey) -> Tensor:
        nodes = self.cell([self.preprocess[0](before), self.preprocess[1](last)], weights, stream)
        return torch.cat(nodes[-4:], dim=1)


class _AuxiliaryHead(nn.Module):
    """Written for square maps of at least one pixel: four windows of 5/8 of the side, as far apart as they can be."""

    def __init__(self, inputs: int, num_classes: int) -> None:
        super().__init__()
        narrow, wide = nn.Conv2d(inputs, 128, 1, bias=False), nn.Conv2d(128, 768, 2, bias=False)
        norms = norm(128, affine=True), norm(768, affine=True)
        self.features = nn.Sequential(narrow, norms[0], nn.ReLU(), wide, norms[1], nn.ReLU())
        self.classifier = nn.Linear(768, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x, side = F.relu(x), x.shape[-1]
        window = (5 * side + 4) // 8
        pooled = F.avg_pool2d(x, window, side - window) if side > 1 else x.expand(-1, -1, 2, 2)
        output: Tensor = self.classifier(self.features(pooled).flatten(1))
        return output


class DARTSNet(nn.Module):
    """A row of cells, each fed by the two before it, as in DARTS."""

    def __init__(self, space: DARTS, options: SupernetOptions, num_classes: int, input_channels: int) -> None:
        super().__init__()
        width = space.channels
        before = last = branch = 3 * width
        self.stem = nn.Sequential(conv(input_channels, last, 3), norm(last, affine=True))
        self.cells = nn.ModuleList()
        self.reducing = [layer in (space.cells // 3, 2 * space.cells // 3) for layer in range(space.cells)]
        self.blocks = [space.block_of(layer) for layer in range(space.cells)]
        reduced = False
        for block, reducing in zip(self.blocks, self.reducing, strict=True):
            width *= 2 if reducing else 1
            self.cells.append(_DARTSCell(space, options, block, (before, last), width, reducing, reduced))
            before, last, reduced = last, 4 * width, reducing
            branch = last if reducing else branch
        self.classifier = nn.Linear(last, num_classes)
        self.auxiliary = _AuxiliaryHead(branch, num_classes) if options.auxiliary_head else None

    def forward(
        self, x: Tensor, mixture: Mapping[str, Tensor], seed: int, auxiliary: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits, with those of the auxiliary head where they are asked for."""
        seen: Counter[str] = Counter()
        before = last = branch = self.stem(x)
        for block, reducing, cell in zip(self.blocks, self.reducing, self.cells, strict=True):
            index = seen[block]
            seen[block] += 1
            before, last = last, cell(before, last, _weights(mixture, block, index), (seed, block, index))
            branch = last if reducing else branch
        output: Tensor = self.classifier(last.mean((2, 3)))
        if not auxiliary:
            return output
        return output, cast("_AuxiliaryHead", self.auxiliary)(branch)
