"""A plain supernet, one module per operation per edge, as the published code runs it.

It exists to be obviously right and to be measured against: the fused supernet must give the same logits and gradients,
faster. Its parameters have the names of the fused one's, so one ``state_dict`` fits both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.randomness import Path, seed_of
from archgrad.spaces.darts import DARTSSpace
from archgrad.spaces.nasbench201 import NASBench201
from archgrad.spaces.space import SearchSpace

__all__ = ["reference_supernet"]


def reference_supernet(space: SearchSpace, num_classes: int = 10, input_channels: int = 3) -> nn.Module:
    """Build the plain supernet ``net(x, mixture, seed=0) -> logits`` of a space; it knows no dropping of any kind."""
    if isinstance(space, NASBench201):
        return _Body(_StagedNet(space, num_classes, input_channels))
    if isinstance(space, DARTSSpace):
        return _Body(_DARTSNet(space, num_classes, input_channels))
    raise UserError(f"there is no reference implementation of the space {space.name!r}.")


def _conv(inputs: int, outputs: int, size: int, stride: int = 1, dilation: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, dilation * (size // 2), dilation, groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, affine=False, track_running_stats=False)


class _Body(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(
        self, x: Tensor, mixture: Mapping[str, Tensor], seed: int = 0, auxiliary: bool = False, skip: float = 0.0
    ) -> Tensor | tuple[Tensor, Tensor]:
        for module in self.modules():
            if isinstance(module, _Cell):
                module.skip = skip
        output: Tensor | tuple[Tensor, Tensor] = self.body(x, mixture, seed, auxiliary)
        return output


class _ReLUConvBN(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = _conv(inputs, outputs, size, stride)
        self.norm = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm(self.conv(F.relu(x)))
        return output


class _FactorizedReduce(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.even = _conv(inputs, outputs // 2, 1, 2)
        self.odd = _conv(inputs, outputs - outputs // 2, 1, 2)
        self.norm = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        shifted = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))[:, :, 1:, 1:]
        output: Tensor = self.norm(torch.cat([self.even(x), self.odd(shifted)], 1))
        return output


class _DilatedConv(nn.Module):
    def __init__(self, channels: int, size: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.depthwise = _conv(channels, channels, size, stride, dilation, groups=channels)
        self.pointwise = _conv(channels, channels, 1)
        self.norm = _norm(channels)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm(self.pointwise(self.depthwise(F.relu(x))))
        return output


class _SeparableConv(_DilatedConv):
    def __init__(self, channels: int, size: int, stride: int) -> None:
        super().__init__(channels, size, 1, 1)
        self.first = _DilatedConv(channels, size, stride, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.first(x))


class _Pool(nn.Module):
    def __init__(self, kind: str, channels: int, stride: int, normed: bool) -> None:
        super().__init__()
        self.kind, self.stride = kind, stride
        self.norm = _norm(channels) if normed else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "max":
            pooled = F.max_pool2d(x, 3, self.stride, 1)
        else:
            pooled = F.avg_pool2d(x, 3, self.stride, 1, count_include_pad=False)
        output: Tensor = self.norm(pooled)
        return output


class _Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class _Zero(nn.Module):
    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :: self.stride, :: self.stride].mul(0.0)


class _Noise(nn.Module):
    """Draws from the stream that the fused supernet uses, so that both see the same noise."""

    def __init__(self, stride: int, row: int) -> None:
        super().__init__()
        self.stride, self.row = stride, row
        self.stream: Path = (0,)

    def forward(self, x: Tensor) -> Tensor:
        shape = x[:, :, :: self.stride, :: self.stride].shape
        generator = torch.Generator().manual_seed(seed_of(*self.stream, self.row))
        return torch.randn(shape, generator=generator, dtype=x.dtype)


def _operation(name: str, channels: int, stride: int, row: int, normed_pools: bool) -> nn.Module:
    makers: dict[str, Callable[[], nn.Module]] = {
        "none": lambda: _Zero(stride),
        "skip_connect": lambda: _Identity() if stride == 1 else _FactorizedReduce(channels, channels),
        "nor_conv_1x1": lambda: _ReLUConvBN(channels, channels, 1),
        "nor_conv_3x3": lambda: _ReLUConvBN(channels, channels, 3),
        "max_pool_3x3": lambda: _Pool("max", channels, stride, normed_pools),
        "avg_pool_3x3": lambda: _Pool("average", channels, stride, normed_pools),
        "sep_conv_3x3": lambda: _SeparableConv(channels, 3, stride),
        "sep_conv_5x5": lambda: _SeparableConv(channels, 5, stride),
        "dil_conv_3x3": lambda: _DilatedConv(channels, 3, stride, 2),
        "dil_conv_5x5": lambda: _DilatedConv(channels, 5, stride, 2),
        "noise": lambda: _Noise(stride, row),
    }
    return makers[name]()


class _Cell(nn.Module):
    """Σ β·shuffle(Σ p·o(x₁) ‖ x₂) + shuffle(skip·x₁ ‖ 0) at every node, one operation after the other."""

    def __init__(
        self, space: SearchSpace, block: str, channels: int, inputs: int, strided: bool, normed_pools: bool
    ) -> None:
        super().__init__()
        rows, partial = space.block(block).rows, space.partial
        self.rows, self.inputs, self.partial, self.skip = rows, inputs, partial, 0.0
        self.strides = [2 if strided and row.source in range(inputs) else 1 for row in rows]
        self.edges = nn.ModuleList()
        for index, (row, stride) in enumerate(zip(rows, self.strides, strict=True)):
            operations = [_operation(name, channels // partial, stride, index, normed_pools) for name in row.choices]
            self.edges.append(nn.ModuleList(operations))
        self.skips = nn.ModuleList(
            _operation("skip_connect", channels // partial, stride, index, normed_pools)
            for index, stride in enumerate(self.strides if space.auxiliary_skip else [])
        )

    def forward(self, inputs: Sequence[Tensor], weights: _Weights, stream: Path) -> list[Tensor]:
        nodes = list(inputs)
        for module in self.modules():
            if isinstance(module, _Noise):
                module.stream = stream
        for number, target in enumerate(dict.fromkeys(row.target for row in self.rows)):
            edges = [index for index, row in enumerate(self.rows) if row.target == target]
            terms = []
            for place, edge in enumerate(edges):
                term = self._edge(edge, nodes[self.rows[edge].source or 0], weights.operations)
                terms.append(term if weights.edges is None else _times(weights.edges[..., number, place], term))
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
        return self._shuffled(torch.cat([mixed, rest], 1))

    def _shuffled(self, x: Tensor) -> Tensor:
        n, channels, height, width = x.shape
        grouped = x.view(n, self.partial, channels // self.partial, height, width)
        return grouped.transpose(1, 2).reshape(n, channels, height, width)

    def _auxiliary(self, edge: int, x: Tensor) -> Tensor:
        carried: Tensor = self.skips[edge](x[:, : x.shape[1] // self.partial])
        return self._shuffled(torch.cat([carried, *[torch.zeros_like(carried)] * (self.partial - 1)], 1))

    def _mix(self, edge: int, x: Tensor, weights: Tensor) -> Tensor:
        operations = cast("nn.ModuleList", self.edges[edge])
        terms = [_times(weights[..., edge, choice], operation(x)) for choice, operation in enumerate(operations)]
        return sum(terms[1:], terms[0])


class _Weights(NamedTuple):
    """The mixture of one cell: of its operations, and of its edges if the space weighs them."""

    operations: Tensor
    edges: Tensor | None


def _weights(mixture: Mapping[str, Tensor], block: str, cell: int) -> _Weights:
    edges = mixture.get(f"{block}.edges")
    return _Weights(mixture[block][cell], None if edges is None else edges[cell])


def _times(weight: Tensor, x: Tensor) -> Tensor:
    """Multiply by one weight, or each image by its own."""
    return weight.reshape(-1, 1, 1, 1) * x


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = _ReLUConvBN(inputs, outputs, 3, 2)
        self.second = _ReLUConvBN(outputs, outputs, 3)
        self.shortcut = _conv(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False)
        output: Tensor = self.second(self.first(x)) + self.shortcut(pooled)
        return output


class _StagedNet(nn.Module):
    def __init__(self, space: NASBench201, num_classes: int, input_channels: int) -> None:
        super().__init__()
        width = space.channels
        self.stem = nn.Sequential(_conv(input_channels, width, 3), _norm(width))
        self.layers = nn.ModuleList()
        for stage in range(3):
            if stage:
                self.layers.append(_Residual(width, 2 * width))
                width *= 2
            for _ in range(space.cells_per_stage):
                self.layers.append(_Cell(space, "cell", width, 1, False, False))
        self.norm = _norm(width)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, mixture: Mapping[str, Tensor], seed: int, auxiliary: bool) -> Tensor:
        if auxiliary:
            raise UserError("this reference implementation has no auxiliary head; only those of DARTS spaces have one.")
        x, cell = self.stem(x), 0
        for layer in self.layers:
            if isinstance(layer, _Cell):
                x = layer([x], _weights(mixture, "cell", cell), (seed, "cell", cell))[-1]
                cell += 1
            else:
                x = layer(x)
        output: Tensor = self.classifier(F.relu(self.norm(x)).mean((2, 3)))
        return output


class _DARTSCell(nn.Module):
    def __init__(
        self, space: DARTSSpace, block: str, inputs: tuple[int, int], width: int, reducing: bool, reduced: bool
    ) -> None:
        super().__init__()
        first = _FactorizedReduce(inputs[0], width) if reduced else _ReLUConvBN(inputs[0], width, 1)
        self.preprocess = nn.ModuleList([first, _ReLUConvBN(inputs[1], width, 1)])
        self.cell = _Cell(space, block, width, 2, reducing, True)

    def forward(self, before: Tensor, last: Tensor, weights: _Weights, stream: Path) -> Tensor:
        nodes = self.cell([self.preprocess[0](before), self.preprocess[1](last)], weights, stream)
        return torch.cat(nodes[2:], dim=1)


class _AuxiliaryHead(nn.Module):
    """Written for square maps of at least one pixel: four windows of 5/8 of the side, as far apart as they can be."""

    def __init__(self, inputs: int, num_classes: int) -> None:
        super().__init__()
        narrow, wide = nn.Conv2d(inputs, 128, 1, bias=False), nn.Conv2d(128, 768, 2, bias=False)
        self.features = nn.Sequential(narrow, _norm(128), nn.ReLU(), wide, _norm(768), nn.ReLU())
        self.classifier = nn.Linear(768, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x, side = F.relu(x), x.shape[-1]
        window = (5 * side + 4) // 8
        pooled = F.avg_pool2d(x, window, side - window) if side > 1 else x.expand(-1, -1, 2, 2)
        output: Tensor = self.classifier(self.features(pooled).flatten(1))
        return output


class _DARTSNet(nn.Module):
    def __init__(self, space: DARTSSpace, num_classes: int, input_channels: int) -> None:
        super().__init__()
        width = space.channels
        before = last = branch = 3 * width
        self.stem = nn.Sequential(_conv(input_channels, last, 3), _norm(last))
        self.cells = nn.ModuleList()
        self.reducing = [layer in (space.cells // 3, 2 * space.cells // 3) for layer in range(space.cells)]
        self.blocks = [space.block_of(layer) for layer in range(space.cells)]
        reduced = False
        for block, reducing in zip(self.blocks, self.reducing, strict=True):
            width *= 2 if reducing else 1
            self.cells.append(_DARTSCell(space, block, (before, last), width, reducing, reduced))
            before, last, reduced = last, 4 * width, reducing
            branch = last if reducing else branch
        self.classifier = nn.Linear(last, num_classes)
        self.auxiliary = _AuxiliaryHead(branch, num_classes) if space.auxiliary else None

    def forward(
        self, x: Tensor, mixture: Mapping[str, Tensor], seed: int, auxiliary: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
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
