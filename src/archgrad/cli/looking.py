"""Reading genotypes that a user names, and looking cells up."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from archgrad.benchmarks import open_table
from archgrad.errors import UserError
from archgrad.spaces import Genotype, nasbench201

__all__ = ["look_up", "read_genotype"]


def read_genotype(text: str) -> Genotype:
    """Return a genotype given as text, as a file that holds it, or as a run directory."""
    path = Path(text)
    if _exists(path / "genotype.json"):
        path /= "genotype.json"
    if not _exists(path):
        if path.suffix in (".json", ".txt") or "/" in text.partition("|")[0]:
            raise UserError(f"there is no file {text}; give a genotype, a file or a run directory that holds one.")
        return Genotype.parse(text)
    if path.is_dir():
        raise UserError(f"{path} has no genotype.json; give the directory of a search that has finished an epoch.")
    try:
        return Genotype.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a genotype ({error}).") from error


def look_up(genotype: Genotype, table_path: Path | None) -> dict[str, Any]:
    """Return the table's accuracies and ranks of a NAS-Bench-201 cell, and the size of its full network."""
    space = nasbench201()
    space.check(genotype)
    table = open_table(table_path)
    accuracies = table.query(genotype)
    size = space.cost(genotype)
    return {
        "genotype": str(genotype),
        "kind": accuracies.kind,
        "source": accuracies.source,
        "accuracy": {dataset: round(accuracy, 4) for dataset, accuracy in accuracies.items()},
        "rank": {dataset: table.rank(genotype, dataset) for dataset, _ in accuracies.items()},
        "cells": len(table),
        "size": str(size),
        "parameters": size.parameters,
        "multiply_adds": size.multiply_adds,
    }


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a long genotype is no file name
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
            return False
        raise
    except ValueError:
        return False
