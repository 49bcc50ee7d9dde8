"""Cells like those of NASNet and AmoebaNet: of the DARTS form, but with more nodes and operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError, unknown
from archgrad.operations import Operation, SeparableConv, Site, Vocabulary
from archgrad.parts.fields import checked
from archgrad.spaces.darts import DARTS, INPUTS, OPERATIONS
from archgrad.spaces.genotype import Genotype

__all__ = ["NASNet"]


class TallWideConv(Operation):
    """ReLU, 1×7 convolution, 7×1 convolution, batch norm."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        width, stride = site.channels, site.stride
        self.wide = nn.Conv2d(width, width, (1, 7), stride=(1, stride), padding=(0, 3), bias=False)
        self.tall = nn.Conv2d(width, width, (7, 1), stride=(stride, 1), padding=(3, 0), bias=False)
        self.norm = site.norm()

    def forward(self, x: Tensor) -> Tensor:
        """Convolve along the width, then along the height."""
        output: Tensor = self.norm(self.tall(self.wide(F.relu(x))))
        return output


@dataclass(frozen=True, kw_only=True)
class NASNet(DARTS):
    """Networks of two cells in the DARTS form, with any number of nodes that read any two earlier outputs.

    Both inputs of a node may be the same. It is for plain networks of known genotypes, such as NASNet-A: it has no
    supernet and cannot be searched.
    """

    name: ClassVar[str] = "nasnet"
    not_searched: ClassVar[str] = "is for known genotypes and has no supernet; search the space 'darts'"
    family: ClassVar[str] = "own"
    vocabulary: ClassVar[Vocabulary] = {
        **{name: build for name, build in OPERATIONS.items() if name not in ("none", "noise")},
        "sep_conv_7x7": lambda site: SeparableConv(site, 7),
        "conv_7x1_1x7": TallWideConv,
    }

    @checked
    def check(self, genotype: Genotype) -> None:
        """Raise a :class:`~archgrad.errors.UserError` unless both cells have the DARTS form."""
        if set(genotype.names) != {"normal", "reduce"}:
            blocks = ", ".join(genotype.names) or "none"
            raise UserError(f"this genotype has the blocks {blocks}; the space 'nasnet' has normal, reduce.")
        allowed = [operation for operation in self.vocabulary if operation not in self.exclude]
        for name, cell in genotype.blocks:
            nodes, joined = INPUTS + (len(cell.decisions) + 1) // 2, cell.concat or ()
            if not joined or not all(0 <= node < nodes for node in joined):
                raise UserError(
                    f"the output of block {name!r} concatenates {list(joined)}; choose from the nodes 0 to {nodes - 1}."
                )
            for number, decision in enumerate(cell):
                if decision.choice not in allowed:
                    raise unknown(f"operation in block {name!r}:", decision.choice, allowed)
                node = INPUTS + number // 2
                if decision.target != node or decision.source is None or decision.source >= node:
                    raise UserError(f"{decision} of block {name!r} is misplaced: node {node} reads two earlier nodes.")
