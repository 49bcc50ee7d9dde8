"""Rows of a mixture that are decided for good, while the search goes on with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Mixture, Probabilities
from archgrad.relaxations.base import Relaxed

__all__ = ["DecidedRows", "present"]

Rows = TypeVar("Rows", Probabilities, Mixture)


@dataclass(frozen=True, eq=False)
class DecidedRows:
    """Rows, marked in ``marks`` ``{block: [rows]}``, whose ``weights`` ``{block: [rows, choices]}`` are no longer α's.

    Only their choices with a weight are computed, and their α rests. A row of zeros is a removed edge. All tensors are
    on the CPU.
    """

    weights: Probabilities = field(default_factory=lambda: Probabilities({}))
    marks: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of decided rows."""
        return sum(int(marks.sum()) for marks in self.marks.values())

    def everywhere(self, alpha: Alpha) -> bool:
        """Tell whether no row of α is left to decide."""
        return all(name in self.marks and bool(self.marks[name].all()) for name in alpha)

    def joined(self, later: DecidedRows) -> DecidedRows:
        """Return these rows and ``later`` ones, which win."""
        weights, marks = dict(self.weights), dict(self.marks)
        for name, own in later.marks.items():
            new = later.weights[name].detach().cpu()
            weights[name] = torch.where(own[:, None], new, self.weights.get(name, new))
            marks[name] = own | self.marks.get(name, own)
        return DecidedRows(Probabilities(weights), marks)

    def inserted(self, rows: Rows) -> Rows:
        """Return ``{block: […, rows, choices]}`` with the decided rows in their places."""
        found = dict(rows)
        for name, marks in self.marks.items():
            value = rows[name]
            found[name] = torch.where(marks[:, None].to(value.device), self.weights[name].to(value), value)
        return cast(Rows, found)

    def fixed(self, relaxed: Relaxed) -> Relaxed:
        """Return a mixture with the decided rows in all cells; what has no weight there is not computed."""
        if not self.marks:
            return relaxed
        mixture, active = self.inserted(relaxed.mixture), dict(relaxed.active or {})
        for name, marks in self.marks.items():
            shown = present(mixture[name])
            active[name] = torch.where(marks[:, None].to(shown.device), shown, active.get(name, torch.ones_like(shown)))
        return Relaxed(mixture, active)

    def resting(self, before: Alpha, after: Alpha) -> Alpha:
        """Return the α after a step, with that before it in the decided rows."""
        moved = dict(after)
        for name, marks in self.marks.items():
            moved[name] = torch.where(marks[:, None].to(before[name].device), before[name], after[name])
        return Alpha(moved)


def present(weights: Tensor) -> Tensor:
    """Mark ``[cells, rows, choices]`` where a weight is not 0, in any image if each has its own."""
    marks = weights.detach() != 0
    return marks if marks.dim() == 3 else marks.any(1)
