"""NAS-Bench-1Shot1 (Zela et al., 2020): three spaces of cells with operations on nodes, all within NAS-Bench-101."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError, shortened
from archgrad.operations import ConvBNReLU, ReLUConvBN, Vocabulary
from archgrad.parts.fields import checked
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.build import CellPlan, CellViews, build_nodes
from archgrad.spaces.cost import Cost, ImageSize
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, MAXPOOL3X3, NASBench101Net
from archgrad.spaces.nasbench101.conversion import module_of
from archgrad.spaces.nasbench101.network import VOCABULARY, Skeleton
from archgrad.spaces.skeleton import StemName, single_stem
from archgrad.spaces.space import Depth, SearchSpace, Width
from archgrad.supernet import MixedNodeCell, NodeMixture
from archgrad.training.weight_training import WeightTraining

__all__ = ["OPERATIONS", "NASBench1Shot1", "OneShotNet"]

OPERATIONS: Vocabulary = {name: VOCABULARY[name] for name in (MAXPOOL3X3, CONV3X3, CONV1X1)}

_PARENTS = {1: (1, 2, 2, 2, 2), 2: (1, 1, 2, 2, 3), 3: (1, 1, 1, 2, 2, 2)}
"""For each space: the number of inputs of each node and, last, of the output."""


@dataclass(frozen=True, kw_only=True)
class NASBench1Shot1(SearchSpace):
    """NAS-Bench-1Shot1, spaces 1 to 3: operations on nodes; 6,240, 29,160 and 363,648 architectures.

    ``number`` chooses one of the three. A cell has nodes 1 … n between an input, node 0, and an output, node n+1.
    ``parents`` is the number of inputs of the nodes 1, 2, … and, last, of the output in a genotype.

    The block ``operations`` decides what each node computes, ``inputs`` which nodes it reads, and ``output`` which
    nodes form the cell's output. A network is a row of ``cells`` cells. Before those at 1/3 and 2/3 of the depth the
    resolution is halved and the width doubled.

    The plain network of a genotype is that of NAS-Bench-101, which trained them all with ``channels=128``. The
    ``stem`` is for images as of CIFAR, or for large ones as of ImageNet: then it divides the resolution by 8.

    >>> [(block.name, block.shape) for block in NASBench1Shot1(number=3).blocks]
    [('operations', (5, 3)), ('inputs', (4, 5)), ('output', (1, 6))]
    """

    depth_knob: ClassVar[str] = "cells"
    family: ClassVar[str] = "nasbench1shot1"
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 128, "cells": 9}

    number: int = field(default=1, metadata={"knob": False})
    cells: Depth = 9
    stem: StemName = "cifar"

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number not in _PARENTS:
            raise UserError(
                f"number of NAS-Bench-1Shot1 is {shortened(self.number)}; it must be the whole number 1, 2 or 3."
            )
        super().__post_init__()
        if self.cells < 3:
            raise UserError(f"cells of the space {self.name!r} is {self.cells}; give at least 3, for two reductions.")

    @property
    def name(self) -> str:  # type: ignore[override]
        """``nasbench1shot1-1`` and so on."""
        return f"nasbench1shot1-{self.number}"

    @property
    def about(self) -> str:
        """What the space is, in a line."""
        nodes, count = len(self.parents) - 1, {1: 6_240, 2: 29_160, 3: 363_648}[self.number]
        return f"NAS-Bench-1Shot1, space {self.number}: operations on {nodes} nodes, {count:,} architectures."

    @property
    def parents(self) -> tuple[int, ...]:
        """The number of inputs of the nodes 1, 2, … and, last, of the output."""
        return _PARENTS[self.number]

    @property
    def output(self) -> int:
        """The number of the output node, which follows all others."""
        return len(self.parents)

    @property
    def reductions(self) -> tuple[int, int]:
        """The cells before which the resolution is halved."""
        return self.cells // 3, 2 * self.cells // 3

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """``operations``, ``inputs`` and ``output``, the same in all cells."""
        rows = {
            "operations": tuple(Row(node, None, tuple(OPERATIONS)) for node in range(1, self.output)),
            "inputs": tuple(self._inputs_of(node) for node in range(1, self.output) if self.parents[node - 1] < node),
            "output": (self._inputs_of(self.output),),
        }
        return tuple(
            self.apply_restriction(
                DecisionBlock(name, self.cells, own, kind="operation" if name == "operations" else "edge")
            )
            for name, own in rows.items()
        )

    def _inputs_of(self, node: int) -> Row:
        return Row(node, None, tuple(map(str, range(node))), picks=self.parents[node - 1])

    @property
    def weights(self) -> WeightTraining:
        """As DARTS, with batches of 96 and 100 epochs, as the benchmark's code has them; its plots have 50."""
        return WeightTraining(batch_size=96, epochs=100)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the one-shot model, or the NAS-Bench-101 network of a genotype."""
        if plan.searching:
            return OneShotNet(self, plan, input_channels, num_classes)
        module = module_of(_chosen(plan))
        return NASBench101Net(module, self.channels, self.cells, input_channels, num_classes, self.stem)

    @checked
    def cost(
        self, genotype: Genotype, *, num_classes: Width = 10, input_channels: Width = 3, image_size: ImageSize = 32
    ) -> Cost:
        """Count the network of a genotype by a formula."""
        self.check(genotype)
        shape = self.channels, self.cells, input_channels, num_classes, self.stem, image_size
        return _skeleton(*shape).cost(module_of(genotype))


_skeleton = lru_cache(maxsize=8)(Skeleton.of)


class OneShotNet(nn.Module):
    """Stem, a row of cells with max-pooling before those that reduce, a 1×1 convolution and a linear classifier."""

    def __init__(self, space: NASBench1Shot1, plan: CellPlan, input_channels: int, num_classes: int) -> None:
        super().__init__()
        width = space.channels
        self.stem = single_stem(space.stem, input_channels, plan.site(width, skeleton=True)).append(nn.ReLU())
        self.reductions = space.reductions
        self.cells = nn.ModuleList()
        inputs = width
        for layer in range(space.cells):
            width *= 2 if layer in space.reductions else 1
            self.cells.append(_build_cell(space, plan, inputs, width))
            inputs = width * (space.output - 1)
        self.postprocess = ReLUConvBN(inputs, plan.site(width), 1)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, mixture: CellViews) -> Tensor:
        """Return logits ``[N, classes]``."""
        x = self.stem(x)
        views = (mixture[name] for name in NodeMixture._fields)
        for layer, (cell, *own) in enumerate(zip(self.cells, *views, strict=True)):
            if layer in self.reductions:
                x = F.max_pool2d(x, 2, 2, ceil_mode=True)
            x = cell(x, NodeMixture(*own))[-1]
        logits: Tensor = self.classifier(self.postprocess(x).mean((2, 3)))
        return logits


def _chosen(plan: CellPlan) -> Genotype:
    """Return the genotype of a plan."""
    return Genotype.of(
        {
            name: CellGenotype(tuple(Decision(row.target, row.source, row.choices[0]) for row in rows))
            for name, rows in plan.rows.items()
        }
    )


def _build_cell(space: NASBench1Shot1, plan: CellPlan, inputs: int, width: int) -> MixedNodeCell:
    nodes = space.output - 1
    widths = [width] * nodes + [width * nodes]
    projections = [ConvBNReLU(inputs, plan.site(own), 1) for own in widths]
    reads = {row.target: tuple(map(int, row.choices)) for name in ("inputs", "output") for row in plan.rows[name]}
    return MixedNodeCell(build_nodes(plan, "operations", OPERATIONS, width), projections, reads)
