"""Well-known cells, with the sizes that were published for them: ``known.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from archgrad.spaces.cost import Cost
from archgrad.spaces.darts import DARTS
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.nasnet import NASNet
from archgrad.spaces.reduced import S1, S2, S3, S4
from archgrad.system.toml import parse_toml

__all__ = ["KnownCell", "known_cells"]


@dataclass(frozen=True)
class KnownCell:
    """A published genotype, and the sizes that its source prints, in millions; None where it prints none.

    ``cifar`` are the parameters of 20 cells with 36 channels. ``imagenet`` are the parameters and multiply-adds of 14
    cells with 48 channels. ``ours`` is what our networks of these two sizes cost, without an auxiliary head.
    """

    genotype: Genotype
    space: type[DARTS]
    source: str
    ours: tuple[Cost, Cost]
    cifar: float | None = None
    imagenet: tuple[float, float] | None = None


@lru_cache
def known_cells() -> Mapping[str, KnownCell]:
    """Return all well-known cells by name.

    >>> known_cells()["darts-v2"].genotype["normal"].count("skip_connect")
    2
    """
    spaces = {space.name: space for space in (DARTS, NASNet, S1, S2, S3, S4)}
    path = Path(__file__).with_name("known.toml")
    content = parse_toml(path.read_text(encoding="utf-8"), path)
    return {
        name: KnownCell(
            Genotype.parse(about["genotype"].strip()),
            spaces[about["space"]],
            about["source"],
            (Cost(*about["ours"][:2]), Cost(*about["ours"][2:])),
            about.get("cifar"),
            tuple(about["imagenet"]) if "imagenet" in about else None,
        )
        for name, about in content.items()
    }
