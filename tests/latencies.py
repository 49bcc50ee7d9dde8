"""A latency table with two devices: one is a sum over edges, on the other operations hinder each other."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from archgrad.spaces.nasbench201_cells import EDGES, OPERATIONS, codes_by_name

COSTS = {"none": 0.0, "skip_connect": 0.5, "nor_conv_1x1": 2.0, "nor_conv_3x3": 6.0, "avg_pool_3x3": 1.5}


def chosen(name: str) -> list[str]:
    """Return the operations of a cell by reading its text."""
    return [part.split("~")[0] for part in name.replace("+", "").split("|") if part]


def additive(name: str) -> float:
    """Return the milliseconds on the device ``sum``: the later the edge, the slower."""
    return 3.0 + sum(COSTS[one] * (1 + place / 10) for place, one in enumerate(chosen(name)))


def crossed(name: str) -> float:
    """Return the milliseconds on the device ``crossed``, where pairs of 3×3 convolutions share a cache."""
    count = chosen(name).count("nor_conv_3x3")
    return additive(name) - 0.4 * count * (count - 1) + crc32(name.encode()) / 2**32 * 0.4 - 0.2


def write_latencies(path: Path, names: list[str] | None = None) -> Path:
    """Write the table of all cells, or of some; every hundredth value of ``crossed`` is zero."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [*codes_by_name()] if names is None else names
    rows = [f"{n},{name},{additive(name)!r},{crossed(name) if n % 100 else 0!r}" for n, name in enumerate(cells)]
    path.write_text("\n".join(["index,arch,sum,crossed", *rows]) + "\n", encoding="utf-8")
    return path


assert len(chosen(next(iter(codes_by_name())))) == len(EDGES)
assert set(COSTS) == set(OPERATIONS)
