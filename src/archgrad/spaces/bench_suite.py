"""DARTS-Bench-Suite (Jha et al., 2025): wide, deep and single-cell supernets of DARTS, with three sets of skips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from archgrad.spaces.block import Row
from archgrad.spaces.darts import CHOICES, DARTS, INPUTS, darts_edges
from archgrad.spaces.genotype import SKIP
from archgrad.spaces.space import Depth, Width

__all__ = ["BENCH_SUITE_SKIPS", "DARTSDeep", "DARTSSingle", "DARTSWide", "SkipSet"]

SkipSet = Literal["regular", "no-skip", "all-skip"]
BENCH_SUITE_SKIPS: tuple[SkipSet, ...] = ("regular", "no-skip", "all-skip")


@dataclass(frozen=True, kw_only=True)
class _BenchSuite(DARTS):
    """DARTS cells at a size of their own, which networks of their genotypes have too.

    ``skips`` is "regular" for the operations of DARTS, "no-skip" without the skip connection among them, or "all-skip":
    every operation o adds one to its output, o(x) + s(x), in the supernet and in networks. s is the identity, at stride
    2 a factorized reduction with weights that all operations of the edge share.
    """

    kind: ClassVar[str]
    skips: SkipSet = field(default="regular", metadata={"knob": False})

    @property
    def name(self) -> str:  # type: ignore[override]
        """``darts-wide``, ``darts-wide-no-skip`` and so on."""
        return f"{self.kind}-{self.skips}" if self.skips in ("no-skip", "all-skip") else self.kind

    @property
    def about(self) -> str:
        """What the space is, in a line."""
        skips = {"no-skip": " No skip connections.", "all-skip": " A skip connection beside every operation."}
        return super().about + skips.get(self.skips, "")

    @property
    def adds_skips(self) -> bool:
        """Whether every operation adds a skip connection to its output."""
        return self.skips == "all-skip"

    @property
    def normal_rows(self) -> tuple[Row, ...]:
        """The edges of a cell."""
        choices = tuple(one for one in CHOICES if one != SKIP or self.skips != "no-skip")
        return darts_edges(choices, self.nodes)


@dataclass(frozen=True, kw_only=True)
class DARTSWide(_BenchSuite):
    """Four cells with 18 channels.

    >>> DARTSWide(skips="no-skip").name, DARTSWide(skips="no-skip").blocks[0].shape
    ('darts-wide-no-skip', (14, 7))
    """

    kind: ClassVar[str] = "darts-wide"
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 18, "cells": 4}

    channels: Width = 18
    cells: Depth = 4


@dataclass(frozen=True, kw_only=True)
class DARTSDeep(_BenchSuite):
    """Eighteen cells with 7 channels."""

    kind: ClassVar[str] = "darts-deep"
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 7, "cells": 18}

    channels: Width = 7
    cells: Depth = 18


@dataclass(frozen=True, kw_only=True)
class DARTSSingle(_BenchSuite):
    """One cell with 26 channels and eight nodes after its two inputs; the last four are its output.

    The layer at a third of the depth reduces, so the one cell is a reduction cell, as in the authors' code.

    >>> [(block.name, block.cells, block.shape, block.concat) for block in DARTSSingle().blocks]
    [('reduce', 1, (44, 8), (6, 7, 8, 9))]
    """

    kind: ClassVar[str] = "darts-single"
    nodes: ClassVar[int] = INPUTS + 8
    fewest_cells: ClassVar[int] = 1
    has_own_depth: ClassVar[bool] = True
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 26, "cells": 1}

    channels: Width = 26
    cells: Depth = 1
