"""Which runs are seeds of one experiment, and what tells its experiments apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["experiment_of", "labels_of"]

_NOT_THE_EXPERIMENT = (
    "seed", "device", "threads", "workers", "compile", "checkpoint_cells", "data_dir", "oracle", "settings", "needs",
    "format", "set", "out",
)  # fmt: skip
_TWICE = ("weights.epochs", "weights.batch_size")
"""Settings that stand among the options, too."""


def experiment_of(options: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a run depends on, except its seed and the machine: its options, and settings by path."""
    return {**{name: one for name, one in options.items() if name not in _NOT_THE_EXPERIMENT}, **settings}


def labels_of(experiments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the method of each experiment, and what it does not share with the others of this method.

    >>> labels_of([{"method": "darts", "cells": 1}, {"method": "darts", "cells": 3}, {"method": "gaea", "cells": 3}])
    ['darts (cells=1)', 'darts (cells=3)', 'gaea']
    """
    keys = {
        method: _differing([one for one in experiments if one["method"] == method])
        for method in {one["method"] for one in experiments}
    }
    return [_label(own, keys[own["method"]]) for own in experiments]


def _differing(rivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the options in which some of these experiments differ."""
    first = rivals[0]
    names = {name for one in rivals for name in {*one, *first} if one.get(name) != first.get(name)}
    return sorted(names.difference(_TWICE))


def _label(own: Mapping[str, Any], names: Sequence[str]) -> str:
    told = [f"{name}={own[name]}" for name in names if own.get(name) is not None]
    return f"{own['method']} ({', '.join(told)})" if told else str(own["method"])
