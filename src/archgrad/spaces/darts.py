"""The DARTS space (Liu et al., 2019): a normal and a reduction cell with two inputs, four nodes and 14 edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.operations import (
    AveragePool,
    DilatedConv,
    FactorizedReduce,
    MaxPool,
    Noise,
    ReLUConvBN,
    SeparableConv,
    Vocabulary,
    Zero,
)
from archgrad.spaces.block import DecisionBlock, Row, edge_rows
from archgrad.spaces.build import CellPlan, CellViews, build_edges, skip_connection
from archgrad.spaces.skeleton import AuxiliaryHead, ImageNetStem, StemName, cifar_stem
from archgrad.spaces.space import Depth, SearchSpace
from archgrad.supernet import CellMixture, FixedCell, MixedCell
from archgrad.training.weight_training import WeightTraining

__all__ = ["CHOICES", "DARTS", "OPERATIONS", "DARTSCell", "DARTSNet"]


OPERATIONS: Vocabulary = {
    "none": Zero,
    "max_pool_3x3": lambda site: MaxPool(site, normed=site.searching),
    "avg_pool_3x3": lambda site: AveragePool(site, normed=site.searching),
    "skip_connect": skip_connection,
    "sep_conv_3x3": lambda site: SeparableConv(site, 3),
    "sep_conv_5x5": lambda site: SeparableConv(site, 5),
    "dil_conv_3x3": lambda site: DilatedConv(site, 3),
    "dil_conv_5x5": lambda site: DilatedConv(site, 5),
    "noise": Noise,
}
CHOICES = tuple(operation for operation in OPERATIONS if operation != "noise")

INPUTS = 2
NODES = INPUTS + 4
_OUTPUTS = 4
"""A cell returns its last nodes, so many."""
_STEM_MULTIPLIER = 3


@dataclass(frozen=True, kw_only=True)
class DARTS(SearchSpace):
    """A normal and a reduction cell of DARTS, each with 14 edges and eight operations.

    A network is a row of ``cells`` cells, each fed by the two before it; the cells at 1/3 and 2/3 of the depth reduce.
    Of two cells, as in the toy of Amended-DARTS (A.3, which does not say their kinds), the first is normal and the
    second reduces: at 1/3 and 2/3 both would reduce, and nothing would decide the normal cell.
    The auxiliary head follows the last reduction. The ``stem`` is for images as of CIFAR, or for large ones as of
    ImageNet: then it divides the resolution by 8. The default size is the published one.

    >>> [(block.name, block.cells, block.shape) for block in DARTS().blocks]
    [('normal', 6, (14, 8)), ('reduce', 2, (14, 8))]
    """

    name: ClassVar[str] = "darts"
    family: ClassVar[str] = "darts"
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 36, "cells": 20}
    depth_knob: ClassVar[str] = "cells"
    has_auxiliary_head: ClassVar[bool] = True
    keep: ClassVar[int | None] = 2
    nodes: ClassVar[int] = NODES
    """The nodes of a cell, with its two inputs."""
    fewest_cells: ClassVar[int] = 2
    vocabulary: ClassVar[Vocabulary] = OPERATIONS

    cells: Depth = 8
    stem: StemName = "cifar"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells < self.fewest_cells:
            raise UserError(
                f"cells of the space {self.name!r} is {self.cells}; give at least 2, a normal and a reduction cell."
            )

    @property
    def reductions(self) -> tuple[int, ...]:
        """The layers that halve the resolution."""
        return (self.cells - 1,) if self.cells <= 2 else (self.cells // 3, 2 * self.cells // 3)

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """``normal`` and ``reduce``; a genotype keeps two inputs per node."""
        normal, reduce = self.cells - len(self.reductions), len(self.reductions)
        return (
            *([self._block("normal", normal, self.normal_rows)] if normal else []),
            self._block("reduce", reduce, self.reduce_rows),
        )

    @property
    def adds_skips(self) -> bool:
        """Whether every operation adds a skip connection to its output."""
        return False

    def block_of(self, layer: int) -> str:
        """Return the name of the block that decides the cell of a layer, counted from 0."""
        return "reduce" if layer in self.reductions else "normal"

    @property
    def normal_rows(self) -> tuple[Row, ...]:
        """The edges of a normal cell."""
        return darts_edges(CHOICES)

    @property
    def reduce_rows(self) -> tuple[Row, ...]:
        """The edges of a reduction cell."""
        return self.normal_rows

    @property
    def weights(self) -> WeightTraining:
        """SGD with momentum 0.9, weight decay 3e-4, 50 epochs."""
        return WeightTraining()

    def _block(self, name: str, cells: int, rows: tuple[Row, ...]) -> DecisionBlock:
        concat = tuple(range(self.nodes - _OUTPUTS, self.nodes))
        return self.apply_restriction(DecisionBlock(name, cells, rows, self.keep, frozenset({"none"}), concat))

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build stem, cells and classifier."""
        return DARTSNet(self, plan, input_channels, num_classes)


def darts_edges(choices: tuple[str, ...], nodes: int = NODES) -> tuple[Row, ...]:
    """Return the edges of a cell, all with these choices: each node reads both inputs and all nodes before it."""
    return edge_rows(((node, range(node)) for node in range(INPUTS, nodes)), choices)


class DARTSCell(nn.Module):
    """Two preprocessed inputs, four nodes, and the concatenation of some of them."""

    is_cell: ClassVar[bool] = True

    def __init__(self, cell: MixedCell | FixedCell, inputs: Sequence[nn.Module], concat: tuple[int, ...]) -> None:
        super().__init__()
        self.preprocess = nn.ModuleList(inputs)
        self.cell = cell
        self.concat = concat

    def forward(self, before: Tensor, last: Tensor, mixture: CellMixture | None = None) -> Tensor:
        """Map the outputs of the two previous cells to this cell's."""
        inputs = [module(x) for module, x in zip(self.preprocess, (before, last), strict=True)]
        nodes = self.cell(inputs) if mixture is None else self.cell(inputs, mixture)
        return torch.cat([nodes[index] for index in self.concat], dim=1)


class DARTSNet(nn.Module):
    """Stem of 3C channels (C for ImageNet), a row of cells, global average pooling and a linear classifier.

    If the plan asks for it, an auxiliary head reads the output of the last reduction.
    """

    def __init__(self, space: DARTS, plan: CellPlan, input_channels: int, num_classes: int) -> None:
        super().__init__()
        large = space.stem == "imagenet"
        stem = space.channels * (1 if large else _STEM_MULTIPLIER)
        self.stem = (ImageNetStem if large else cifar_stem)(input_channels, plan.site(stem, skeleton=True))
        self.cells = nn.ModuleList()
        self.kinds: list[str] = []
        self.branching = space.reductions[-1]
        before = last = branch = stem
        width, reduced = space.channels, large
        for layer in range(space.cells):
            reducing = layer in space.reductions
            width *= 2 if reducing else 1
            block = space.block(space.block_of(layer))
            self.kinds.append(block.name)
            cell = _build_cell(plan, block, space, (before, last), width, reducing, reduced)
            self.cells.append(cell)
            before, last, reduced = last, width * len(cell.concat), reducing
            branch = last if layer == self.branching else branch
        self.classifier = nn.Linear(last, num_classes)
        site = plan.site(branch, skeleton=True)
        self.auxiliary = AuxiliaryHead(branch, site, num_classes, large) if plan.auxiliary_head else None

    def forward(
        self, x: Tensor, mixture: CellViews | None = None, auxiliary: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits ``[N, classes]``; with ``auxiliary``, also those of the auxiliary head.

        A plain network returns those of its auxiliary head in training mode.
        """
        views = {name: iter(cells) for name, cells in (mixture or {}).items()}
        auxiliary = self.training if mixture is None else auxiliary
        stem = self.stem(x)
        before, last = stem if isinstance(stem, tuple) else (stem, stem)
        branch = last
        for layer, (kind, cell) in enumerate(zip(self.kinds, self.cells, strict=True)):
            before, last = last, cell(before, last, next(views[kind]) if views else None)
            branch = last if layer == self.branching else branch
        logits: Tensor = self.classifier(last.mean((2, 3)))
        return logits if self.auxiliary is None or not auxiliary else (logits, self.auxiliary(branch))


def _build_cell(
    plan: CellPlan,
    block: DecisionBlock,
    space: DARTS,
    inputs: tuple[int, int],
    width: int,
    reducing: bool,
    reduced: bool,
) -> DARTSCell:
    """Build a cell; ``reduced`` means that the previous cell halved the resolution of its second input."""
    site = plan.site(width)
    before = FactorizedReduce(inputs[0], plan.site(width, 2)) if reduced else ReLUConvBN(inputs[0], site, 1)
    strided = range(INPUTS) if reducing else ()
    edges = build_edges(plan, block.name, space.vocabulary, width, strided, space.adds_skips)
    nodes = 1 + max(edge.target for edge in edges)
    cell = (MixedCell if plan.searching else FixedCell)(edges, INPUTS, nodes)
    return DARTSCell(cell, [before, ReLUConvBN(inputs[1], site, 1)], plan.concat_of(block))
