"""A space with one architecture, so that the loop of a search trains its network."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

from torch import nn

from archgrad.errors import UserError
from archgrad.models import Model
from archgrad.models.transfer import copy_matching_weights
from archgrad.spaces import DecisionBlock, Genotype, ResNet, SearchSpace, named_space
from archgrad.spaces.build import CellPlan
from archgrad.spaces.space import ChosenPairs, Depth
from archgrad.supernet import PLAIN, Modifier, PlainNetwork, Supernet, SupernetOptions, TrainingMode
from archgrad.training.weight_training import WeightTraining

__all__ = ["SingleArchitecture"]


@dataclass(frozen=True, kw_only=True)
class SingleArchitecture(SearchSpace):
    """One ``architecture`` (a genotype) of the space ``of``, at a width, a depth and a stem: nothing is decided.

    Its "supernet" is the plain network, with an auxiliary head if the options of the supernet have one. With
    ``start_from``, the folder of a trained model, its weights begin with those of that model, as far as they fit.
    """

    name: ClassVar[str] = "network"
    depth_knob: ClassVar[str] = "cells"

    of: str | SearchSpace = "darts"
    architecture: str = ""
    cells: Depth = 8
    stem: str = "cifar"
    start_from: str = ""
    restriction: None = field(default=None, metadata={"knob": False})

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.of, SearchSpace):  # so that two of different sizes do not tell two trainings apart
            object.__setattr__(self, "of", self.base)

    @cached_property
    def base(self) -> SearchSpace:
        """The space of the architecture, at this size."""
        base = self.of if isinstance(self.of, SearchSpace) else named_space(self.of)
        sizes: dict[str, Any] = {"channels": self.channels, base.depth_knob: self.cells, "stem": self.stem}
        if "stem" not in {one.name for one in fields(base)} and sizes.pop("stem") != "cifar":
            raise UserError(f"networks of the space {base.name!r} have one kind of stem; leave the stem out.")
        return replace(base, restriction=None, **sizes)

    @cached_property
    def fixed(self) -> Genotype:
        """The genotype."""
        found = Genotype.parse(self.architecture)
        self.base.check(found)
        return found

    @property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """Nothing is decided."""
        return ()

    @property
    def weights(self) -> WeightTraining:
        """The settings of the base space; a preset replaces them."""
        return self.base.weights

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """The network trains only in the weights' loss."""
        return (TrainingMode(),)

    def completed_options(self, options: SupernetOptions | None = None) -> SupernetOptions:
        """Return the options with None replaced by 0; reject those that a plain network cannot have."""
        options = (options or SupernetOptions()).completed(PLAIN)
        for name in ("partial", "edge_weights", "skip_dropout", "auxiliary_skip"):
            if getattr(options, name) != getattr(PLAIN, name):
                raise UserError(f"supernet.{name} is for searches, not for one architecture; leave it out.")
        if options.auxiliary_head and not self.base.has_auxiliary_head:
            raise UserError(
                f"supernet.auxiliary_head is {options.auxiliary_head}, but networks of the space {self.base.name!r} "
                f"have no auxiliary head; set it to 0."
            )
        if options.drop_path and not self.has_drop_path:
            raise UserError(
                f"supernet.drop_path is {options.drop_path}, but networks of the space {self.base.name!r} have no "
                f"operations on edges to drop; set it to 0."
            )
        return options

    @property
    def has_drop_path(self) -> bool:
        """Whether its network can drop operations in training."""
        return not isinstance(self.base, ResNet) and any(block.on_edges for block in self.base.blocks)

    def supernet(
        self, options: SupernetOptions | None = None, *, num_classes: int = 10, input_channels: int = 3
    ) -> Supernet:
        """Build the network, with the weights to start from if there are any."""
        network = self.base.network(
            self.fixed, num_classes=num_classes, input_channels=input_channels,
            auxiliary_head=bool(self.completed_options(options).auxiliary_head),
        )  # fmt: skip
        if self.start_from:
            copy_matching_weights(network, Model.load(self.start_from))
        return PlainNetwork(network)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the network of the base space."""
        return self.base.build(plan, input_channels, num_classes)

    def genotype(self, selection: ChosenPairs) -> Genotype:
        """Return the one genotype."""
        return self.fixed

    def check(self, genotype: Genotype) -> None:
        """Reject genotypes that are not in the base space."""
        self.base.check(genotype)
