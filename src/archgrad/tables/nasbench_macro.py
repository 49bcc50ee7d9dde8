"""NAS-Bench-Macro (Su et al., 2021): the test accuracies of all 6,561 chains on CIFAR-10, three trainings each.

The table is the benchmark's own JSON file: the one that the caller names, else ``$ARCHGRAD_DATA/nasbench-macro/
cifar10.json``. It maps the code of a network, a digit for each layer, to its accuracies, parameters and FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from archgrad.errors import UserError
from archgrad.parts.fields import checked
from archgrad.spaces import Genotype, Macro, SearchSpace
from archgrad.spaces.notation import chain_form
from archgrad.spaces.notation.common import read_json
from archgrad.system.data_files import data_files, load_once
from archgrad.system.files import read_text
from archgrad.tables.base import Answer, Cell, CellLookup, Oracle, Table, oracle_measure

__all__ = ["MacroTable", "NASBenchMacroTable", "find_macro_table"]

_CODES = tuple("".join(digits) for digits in product("012", repeat=8))
_TRAININGS = 3
_LARGEST = 100_000_000
_KIND = "test accuracy after 50 epochs, mean of 3 trainings"
_MEASURE = oracle_measure("cifar10", "test_50ep")


@dataclass(frozen=True, eq=False)
class MacroTable:
    """Three test accuracies of each network in per cent, by its code; ``source`` says where they come from."""

    trainings: Mapping[str, tuple[float, ...]] = field(repr=False)
    source: str

    @cached_property
    def means(self) -> Mapping[str, float]:
        """The mean accuracy of each network."""
        return {code: fmean(own) for code, own in self.trainings.items()}

    @checked
    def query(self, genotype: Genotype) -> float:
        """Return the mean accuracy of a network."""
        Macro().check(genotype)
        return self.means[chain_form.code_of(genotype)]

    def worse(self, accuracy: float) -> int:
        """Return the number of networks with a lower accuracy."""
        return sum(own < accuracy for own in self.means.values())

    def rank(self, accuracy: float) -> int:
        """Return the rank of an accuracy: 1 is the best."""
        return 1 + sum(own > accuracy for own in self.means.values())


@checked
def find_macro_table(path: str | Path | None = None) -> MacroTable | None:
    """Return the table at ``path``, else the one on this machine, else None."""
    for found in [path] if path is not None else data_files("nasbench-macro", "cifar10.json"):
        return load_once(_load, found, "NAS-Bench-Macro table")
    return None


def _load(path: Path) -> MacroTable:
    content = read_json(read_text(path, "table", _LARGEST), what=f"NAS-Bench-Macro table {path}")
    missing = [code for code in _CODES if code not in content]
    if missing or len(content) > len(_CODES):
        raise UserError(
            f"the table {path} has {len(content)} networks, and {len(missing)} of the {len(_CODES)} codes of "
            f"NAS-Bench-Macro are missing; fetch it again."
        )
    return MacroTable({code: _accuracies(path, code, content[code]) for code in _CODES}, str(path))


def _accuracies(path: Path, code: str, about: Any) -> tuple[float, ...]:
    own = about.get("test_acc") if isinstance(about, dict) else None
    numbers = [float(one) for one in own if type(one) in (int, float)] if isinstance(own, list) else []
    if len(numbers) != _TRAININGS or not all(0 <= one <= 100 for one in numbers):
        raise UserError(
            f'the table {path}: "test_acc" of the network {code} must be a list of {_TRAININGS} numbers from 0 to 100; '
            f"fetch it again."
        )
    return tuple(numbers)


class NASBenchMacroTable(Table):
    """Mean test accuracies on CIFAR-10."""

    title = "NAS-Bench-Macro"
    spaces = ("macro",)
    datasets = ("cifar10",)
    suffixes = (".json",)

    def is_available(self) -> bool:
        """Tell whether the JSON file exists."""
        return find_macro_table() is not None

    def has_form_of(self, cell: Cell) -> bool:
        """Tell whether it is a chain of the benchmark's length and operations."""
        if isinstance(cell, Genotype):
            with suppress(UserError):
                Macro().check(cell)
                return True
        return False

    def oracle(self, space: SearchSpace, datasets: Sequence[str]) -> Oracle | None:
        """Return the accuracy on CIFAR-10; nothing for chains of another length."""
        table = find_macro_table() if "cifar10" in datasets and _has_all_layers(space) else None
        if table is None:
            return None
        lookup = CellLookup(lambda genotype: {_MEASURE: round(table.query(genotype), 4)})
        return Oracle((lookup,), f"oracle accuracy: {_KIND} on cifar10, from {table.source}")

    def look_up(self, cell: Cell, path: Path | None) -> Answer:
        """Return accuracy, rank and size of a network."""
        assert isinstance(cell, Genotype)  # noqa: S101 - it has the form of a chain
        return _answer(cell, _open(path))

    def values(self, space: SearchSpace, measure: str) -> tuple[float, ...] | None:
        """Return the accuracies of all networks that have none of the operations that the space leaves out."""
        table = find_macro_table()
        if table is None or measure != _MEASURE or not _has_all_layers(space):
            return None
        left_out = {str(digit) for digit, name in enumerate(chain_form.CODED) if name in space.exclude}
        return tuple(mean for code, mean in table.means.items() if not left_out & set(code))

    def accuracies(self, genotype: Genotype) -> dict[str, float]:
        """Return the accuracy on CIFAR-10; nothing for chains of another length."""
        table = find_macro_table() if self.has_form_of(genotype) else None
        return {} if table is None else {_MEASURE: table.query(genotype)}

    def best(self, path: Path) -> Answer:
        """Return the answer about the best network; the lowest code wins a tie."""
        table = _open(path)
        return _answer(chain_form.parse_code(max(table.means, key=table.means.__getitem__)), table)


def _has_all_layers(space: SearchSpace) -> bool:
    return isinstance(space, Macro) and space.cells == Macro().cells


def _open(path: Path | None) -> MacroTable:
    table = find_macro_table(path)
    if table is None:
        raise UserError(
            "no NAS-Bench-Macro table was found; name its JSON file with --table FILE, or put it at "
            "$ARCHGRAD_DATA/nasbench-macro/cifar10.json."
        )
    return table


def _answer(genotype: Genotype, table: MacroTable) -> Answer:
    accuracy, size, networks = table.query(genotype), Macro().cost(genotype), len(_CODES)
    worse, regret = 100 * table.worse(accuracy) / networks, max(table.means.values()) - accuracy
    code = chain_form.code_of(genotype)
    content: dict[str, Any] = {
        "genotype": str(genotype),
        "code": code,
        "kind": _KIND,
        "source": table.source,
        "accuracy": {"cifar10": round(accuracy, 4)},
        "trainings": [round(one, 4) for one in table.trainings[code]],
        "regret": {"cifar10": round(regret, 4)},
        "rank": {"cifar10": table.rank(accuracy)},
        "worse": {"cifar10": round(worse, 4)},
        "cells": networks,
        "size": str(size),
        "parameters": size.parameters,
        "multiply_adds": size.multiply_adds,
    }
    trainings = ", ".join(f"{one:.2f}" for one in table.trainings[code])
    lines = [
        f"{genotype} ({code})",
        f"{_KIND} ({table.source}):",
        f"  cifar10         {accuracy:6.2f} %   rank {table.rank(accuracy)} of {networks}   regret {regret:.2f}",
        f"  trainings       {trainings}",
        f"  worse           {worse:.1f} % of all networks",
        f"  full size       {size}",
    ]
    return Answer(content, "\n".join(lines))
