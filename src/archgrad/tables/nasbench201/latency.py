"""What a latency table says of a cell and of its devices, for ``archgrad query`` and ``archgrad list devices``."""

from __future__ import annotations

from pathlib import Path

from archgrad.parts.fields import checked
from archgrad.spaces import Genotype, NASBench201
from archgrad.spaces.latency_table import fit_latencies, open_latencies
from archgrad.tables.base import Answer

__all__ = ["describe_device", "describe_devices", "look_up_latency"]


@checked
def look_up_latency(genotype: Genotype | str, device: str = "all", path: Path | None = None) -> Answer:
    """Return the milliseconds of a cell on a device, or on all of them; null where the table lacks them."""
    table = open_latencies(path)
    devices = table.devices if device == "all" else (table.device(device),)
    found = {one: table.milliseconds(genotype, one) for one in devices}
    lines = [f"  {one:<15} {'missing' if time is None else f'{time:8.3f} ms'}" for one, time in found.items()]
    return Answer({"latency_ms": found}, "\n".join([f"latency ({table.source}):", *lines]))


def describe_devices(path: Path | None = None) -> dict[str, list[str]]:
    """Return the latencies of each device in words: median, least and greatest."""
    found = {}
    for device, column in open_latencies(path).columns.items():
        known = column[column.isfinite()]
        most = f"{known.min():.3g} to {known.max():.3g}" if len(known) else "unknown"
        found[device] = [f"{known.median():7.2f} ms", f"{most} ms, {len(known)} cells"]
    return found


def describe_device(device: str, path: Path | None = None) -> str:
    """Return how well the additive model fits a device, with and without the operation ``none``."""
    table = open_latencies(path)
    median, others = describe_devices(path)[table.device(device)]
    lines = [f"{device}: median {median.strip()}, {others}, from {table.source}"]
    for title, space in (("all cells", NASBench201()), ("cells without none", NASBench201(exclude=("none",)))):
        fit = fit_latencies(space, table.columns[table.device(device)])
        lines.append(
            f"  additive fit to {fit.cells} {title}: R² {fit.r2:.4f}, rank correlation {fit.rank_correlation:.4f}"
        )
    return "\n".join(lines)
