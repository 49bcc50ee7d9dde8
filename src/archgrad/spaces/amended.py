"""The two spaces of Amended-DARTS (Bi et al., 2019, Sections 4.1.2 and 4.1.3): searched as they are evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from archgrad.spaces.block import DecisionBlock, Row, edge_rows
from archgrad.spaces.darts import CHOICES, DARTS, INPUTS, NODES
from archgrad.spaces.space import Depth, Width
from archgrad.supernet import SupernetOptions
from archgrad.training.weight_training import WeightTraining

__all__ = ["AmendedA1", "AmendedA2"]


@dataclass(frozen=True, kw_only=True)
class _Amended(DARTS):
    """DARTS cells of eight fixed edges: each node reads the node before it and the output of the cell before last.

    No edge is removed; width, drop-path and the auxiliary head are those of the evaluation (Section 4.1.2). The paper
    also uses cutout, a setting of the data: ``augmentation.cutout=16`` for images of 32 pixels.
    """

    family: ClassVar[str] = "amended"
    keep: ClassVar[int | None] = None
    choices: ClassVar[tuple[str, ...]]

    channels: Width = 36

    @property
    def normal_rows(self) -> tuple[Row, ...]:
        """2←0, 2←1, 3←0, 3←2, 4←0, 4←3, 5←0, 5←4."""
        return edge_rows(((node, (0, node - 1)) for node in range(INPUTS, NODES)), self.choices)

    @property
    def weights(self) -> WeightTraining:
        """As DARTS, with batches of 96 and 100 epochs (Section 4.1.1)."""
        return WeightTraining(batch_size=96, epochs=100)

    @property
    def supernet_defaults(self) -> SupernetOptions:
        """Drop-path of 0.2 and an auxiliary head of weight 0.4, as in the evaluation."""
        return SupernetOptions(drop_path=0.2, auxiliary_head=0.4)


@dataclass(frozen=True, kw_only=True)
class AmendedA1(_Amended):
    """Eight fixed edges with the DARTS operations except ``none``, a normal and a reduction cell: 7¹⁶ architectures."""

    name: ClassVar[str] = "amended-a1"
    choices: ClassVar[tuple[str, ...]] = tuple(choice for choice in CHOICES if choice != "none")


@dataclass(frozen=True, kw_only=True)
class AmendedA2(_Amended):
    """Eight fixed edges with a skip or a separable convolution, decided for each cell separately: 2¹⁶⁰ architectures.

    >>> len(AmendedA2().blocks), AmendedA2().blocks[0].rows[0].choices
    (20, ('skip_connect', 'sep_conv_3x3'))
    """

    name: ClassVar[str] = "amended-a2"
    has_own_depth: ClassVar[bool] = True
    choices: ClassVar[tuple[str, ...]] = ("skip_connect", "sep_conv_3x3")

    cells: Depth = 20

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """``cell_00``, ``cell_01`` and so on: one for each layer."""
        rows = self.normal_rows
        return tuple(self._block(self.block_of(layer), 1, rows) for layer in range(self.cells))

    def block_of(self, layer: int) -> str:
        """Return the name of the layer's own block."""
        return f"cell_{layer:02}"
