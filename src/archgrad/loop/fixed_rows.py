"""The rows of a mixture that a discretizer has fixed while the search goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.discretizers import Tuning
from archgrad.relaxations import Relaxed
from archgrad.tensors import Mixture

__all__ = ["FixedRows"]


@dataclass(frozen=True, eq=False)
class FixedRows:
    """Which rows of a mixture are fixed, ``{block: [rows, 1]}``, and their weights."""

    rows: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, tuning: Tuning) -> FixedRows:
        """Take the rows that a discretizer has decided."""
        return cls({name: value[:, None] for name, value in tuning.decided.items()}, tuning.weights)

    def put_into(self, relaxed: Relaxed) -> Relaxed:
        """Replace these rows of a mixture, in all cells."""
        mixture, active = Mixture(dict(relaxed.mixture)), dict(relaxed.active or {})
        for name, rows in self.rows.items():
            own, weights = rows.to(mixture[name].device), self.weights[name].to(mixture[name])
            mixture[name] = torch.where(own, weights, mixture[name])
            if name in active:
                active[name] = torch.where(own, weights != 0, active[name])
        return Relaxed(mixture, None if relaxed.active is None else active)
