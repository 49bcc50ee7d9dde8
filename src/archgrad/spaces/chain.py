"""Spaces of layers in a row, each with its own decision: one supernet for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from archgrad.errors import UserError, look_up
from archgrad.operations import Identity, InvertedResidual, Operation, Projection, Site
from archgrad.parts.fields import checked
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.build import CellPlan, CellViews
from archgrad.spaces.genotype import SKIP, Genotype
from archgrad.spaces.skeleton import StemName
from archgrad.spaces.space import Depth, SearchSpace, Width
from archgrad.supernet import Edge, FixedLayer, MixedLayer, SupernetOptions
from archgrad.training.weight_training import WeightTraining

__all__ = ["CHAIN", "Chain", "ChainNet", "Layer", "Stage", "inverted_residuals", "layers_in"]

CHAIN = "chain"
"""The name of the block."""
HEAD = 40
"""The width of the head: 40·C, which is 1,280 for C = 32."""


class Stage(NamedTuple):
    """So many ``layers`` of ``width`` · C channels; the first has the ``stride``."""

    layers: int
    width: float
    stride: int


class Layer(NamedTuple):
    """The place of a layer: its channels before and after, its stride, and whether it is the first of its stage."""

    inputs: int
    outputs: int
    stride: int
    first: bool


def layers_in(stages: tuple[Stage, ...], count: int, inputs: int, channels: int) -> tuple[Layer, ...]:
    """Return ``count`` layers, spread over the stages in proportion to their published layers.

    Fewer layers than stages leave some stages out, but neither the first nor, from two layers on, the last one.

    >>> [layer.outputs for layer in layers_in((Stage(2, 2, 2), Stage(3, 4, 2), Stage(3, 8, 2)), 8, 1, 1)]
    [2, 2, 4, 4, 4, 8, 8, 8]
    """
    owners = [number for number, stage in enumerate(stages) for _ in range(stage.layers)]
    numbers = [owners[round(place * (len(owners) - 1) / max(count - 1, 1))] for place in range(count)]
    widths = [inputs, *(max(1, round(channels * stages[number].width)) for number in numbers)]
    return tuple(
        Layer(before, after, stages[own].stride if own != last else 1, own != last)
        for (before, after), (last, own) in zip(pairwise(widths), pairwise([-1, *numbers]), strict=True)
    )


def inverted_residuals(*kinds: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Return the names of inverted residuals with their expansions and kernel sizes.

    >>> inverted_residuals((3, 5))
    {'mb3_5x5': (3, 5)}
    """
    return {f"mb{expansion}_{size}x{size}": (expansion, size) for expansion, size in kinds}


@dataclass(frozen=True, kw_only=True)
class Chain(SearchSpace):
    """A chain of ``cells`` layers, each an inverted residual or a skip connection that is decided for it alone.

    The mixture has one row per layer. A stem of C channels, the layers, a 1×1 convolution to 40·C channels (1,280 for
    C = 32), the average over all pixels and a linear classifier. A subclass names the ``stages`` and the ``kinds`` of
    inverted residuals.
    """

    depth_knob: ClassVar[str] = "cells"
    has_own_depth: ClassVar[bool] = True
    stages: ClassVar[tuple[Stage, ...]]
    kinds: ClassVar[dict[str, tuple[int, int]]]
    """Expansion and kernel size of each inverted residual, by its name."""
    skips_at_strides: ClassVar[bool] = False
    """Whether the first layer of a stage may be a skip connection, which is a 1×1 convolution there."""

    channels: Width = 32
    cells: Depth = 8
    stem: StemName = "cifar"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The places of all layers."""
        return layers_in(self.stages, self.cells, self.channels, self.channels)

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """One block, ``chain``, with a row for each layer: 1←0, 2←1 and so on."""
        rows = tuple(
            Row(number, number - 1, (*([SKIP] if self.skips_at_strides or not layer.first else []), *self.kinds))
            for number, layer in enumerate(self.layers, start=1)
        )
        return (self.apply_restriction(DecisionBlock(CHAIN, 1, rows)),)

    @property
    def weights(self) -> WeightTraining:
        """The settings of DARTS: no paper has published any for a search with gradients here."""
        return WeightTraining()

    def completed_options(self, options: SupernetOptions | None = None) -> SupernetOptions:
        """Return the options with the defaults; reject those of cells with several inputs and one width."""
        completed = super().completed_options(options)
        if completed.partial > 1:
            raise UserError(
                f"supernet.partial is {completed.partial}, but the space {self.name!r} is a chain whose layers change "
                f"their width, so no channels can bypass them; set it to 1, or take a method without partial channels."
            )
        if completed.edge_weights:
            raise UserError(
                f"supernet.edge_weights is on, but each layer of the space {self.name!r} has one input, so there are "
                f"no edges to weigh; leave it out."
            )
        return completed

    @checked
    def check(self, genotype: Genotype) -> None:
        """Reject what is not in the space; a chain of another length is told which one to ask for."""
        found = len(genotype[CHAIN].decisions) if genotype.names == (CHAIN,) else self.cells
        if found != self.cells:
            raise UserError(
                f"this chain has {found} layers, but the space {self.name!r} has {self.cells}; give --cells {found} "
                f"(the field cells), or a genotype of {self.cells} layers."
            )
        super().check(genotype)

    def build_stem(self, inputs: int, site: Site) -> nn.Sequential:
        """Return the layers before the chain, from the images to C channels."""
        raise NotImplementedError

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the whole chain."""
        stem = self.build_stem(input_channels, plan.site(self.channels, skeleton=True))
        layers = [self._layer(plan, number) for number in range(1, self.cells + 1)]
        site = plan.site(HEAD * self.channels, skeleton=True)
        return ChainNet(stem, layers, self.layers[-1].outputs, site, num_classes)

    def _layer(self, plan: CellPlan, number: int) -> MixedLayer | FixedLayer:
        """Build a layer, counted from 1."""
        place, choices = self.layers[number - 1], plan.rows[CHAIN][number - 1].choices
        site = plan.site(place.outputs, place.stride)
        operations = tuple(self._operation(choice, place, site) for choice in choices)
        skip = _skip(place, site) if plan.options.auxiliary_skip else None
        edge = Edge(number - 1, number, operations, place.stride, 1, skip, choices, CHAIN)
        return MixedLayer(edge, place.outputs) if plan.searching else FixedLayer(edge)

    def _operation(self, choice: str, place: Layer, site: Site) -> Operation:
        if choice == SKIP:
            return _skip(place, site)
        expansion, size = look_up("operation", choice, self.kinds)
        return InvertedResidual(place.inputs, site, size, expansion)


def _skip(place: Layer, site: Site) -> Operation:
    return Projection(place.inputs, site) if place.first else Identity()


class ChainNet(nn.Module):
    """Stem, layers, a 1×1 convolution with batch norm and ReLU, and a linear classifier."""

    def __init__(
        self, stem: nn.Module, layers: list[MixedLayer | FixedLayer], width: int, site: Site, num_classes: int
    ) -> None:
        super().__init__()
        self.stem = stem
        self.layers = nn.ModuleList(layers)
        self.head = nn.Sequential(nn.Conv2d(width, site.channels, 1, bias=False), site.norm(), nn.ReLU())
        self.classifier = nn.Linear(site.channels, num_classes)

    def forward(self, x: Tensor, mixture: CellViews | None = None) -> Tensor:
        """Return logits ``[N, classes]``."""
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x) if mixture is None else layer(x, mixture[CHAIN][0])
        logits: Tensor = self.classifier(self.head(x).mean((2, 3)))
        return logits
