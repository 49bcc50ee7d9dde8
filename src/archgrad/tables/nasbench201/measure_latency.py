"""Make a latency table of this machine: time a sample of cells, and predict all others by the additive fit.

The file grows by a cell at a time and always replaces the former one as a whole, so a measurement that was stopped goes
on where it was. Its column ``source`` says of each cell how it was measured, or that it is predicted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch

from archgrad.errors import UserError, reason, shortened
from archgrad.parts.fields import Range, checked
from archgrad.spaces import NASBench201
from archgrad.spaces.cost import measure_latency
from archgrad.spaces.latency_table import NO_DEVICES, LatencyFit, design_of, fit_latencies
from archgrad.spaces.nasbench201_cells import CELLS, EDGES, OPERATIONS, codes_by_name, genotype_of
from archgrad.system.files import exists, open_regular, shown_path, write_text
from archgrad.system.random_streams import SavedRandomState, generator
from archgrad.tables.base import Progress

__all__ = ["MeasuredTable", "Setting", "measure_table", "sample_of_cells"]

PREDICTED = "predicted"
_CELL = NASBench201().block("cell")


@dataclass(frozen=True)
class Setting:
    """What is measured: the network of a space at an image size, batch size and number of threads."""

    space: NASBench201
    image_size: int = 32
    batch_size: int = 1
    threads: int = 1

    def __str__(self) -> str:
        network = f"{self.space.channels} channels, {self.space.cells_per_stage} cells per stage"
        return f"measured: {network}, {self.image_size} pixels, batch {self.batch_size}, threads {self.threads}"


class MeasuredTable(NamedTuple):
    """The fit to the measured cells, and its R² on each of them when it is left out of the fit."""

    fit: LatencyFit
    left_out_r2: float


def sample_of_cells(count: int, seed: int = 0) -> list[int]:
    """Return codes of different cells: in every five of them each edge has each of the five operations once.

    Beyond half of all cells, where few such fives are left, the others come in any order.

    >>> len(set(sample_of_cells(100)))
    100
    """
    drawn, found = generator(seed, "latency cells"), dict[int, None]()
    while len(found) < min(count, CELLS // 2):
        columns = [torch.randperm(len(OPERATIONS), generator=drawn).tolist() for _ in EDGES]
        five = [int("".join(map(str, digits)), len(OPERATIONS)) for digits in zip(*columns, strict=True)]
        if not found.keys() & set(five):
            found |= dict.fromkeys(five)
    others = torch.randperm(CELLS, generator=drawn).tolist() if len(found) < count else []
    return list(found | dict.fromkeys(others))[:count]


@checked
def measure_table(
    out: Path,
    setting: Setting,
    device: str = "here",
    cells: Annotated[int, Range(30, CELLS)] = 100,
    progress: Progress = lambda done, total: None,
) -> MeasuredTable:
    """Measure a sample of cells into the table ``out``, then fill in all others; go on with what is there."""
    if device in NO_DEVICES:
        raise UserError(f"device is {device!r}, which is another column of the table; give the machine another name.")
    times = _read_measured(out, device, str(setting)) if exists(out) else {}
    wanted, before = sample_of_cells(cells), torch.get_num_threads()
    torch.set_num_threads(setting.threads)
    try:
        for done, code in enumerate(wanted):
            progress(done, len(wanted))
            if code not in times:
                times[code] = 1000 * _seconds(code, setting)
                _write(out, device, ((one, time, str(setting)) for one, time in times.items()))
    finally:
        torch.set_num_threads(before)
    progress(len(wanted), len(wanted))
    fit, left_out = _fitted(times)
    fixed = torch.tensor([fit.costs.fixed], dtype=torch.float64)
    predicted = design_of(_CELL)[0] @ torch.cat([fixed, fit.costs.choices["cell"][:, 1:].flatten()])
    rows = enumerate(1000 * predicted.numpy())
    known = ((code, times.get(code, time), str(setting) if code in times else PREDICTED) for code, time in rows)
    _write(out, device, known)
    return MeasuredTable(fit, left_out)


def _seconds(code: int, setting: Setting) -> float:
    with SavedRandomState(torch.device("cpu")).replay():
        network = setting.space.network(genotype_of(code), num_classes=10, input_channels=3)
    return measure_latency(network, 3, setting.image_size, setting.batch_size)


def _fitted(times: dict[int, float]) -> tuple[LatencyFit, float]:
    """Return the fit, and R² by the residuals of cells that are left out: e_i / (1 − h_ii), H = X (XᵀX)⁻¹ Xᵀ."""
    column = torch.full((CELLS,), torch.nan, dtype=torch.float64)
    column[list(times)] = torch.tensor([*times.values()], dtype=torch.float64)
    fit, (design, _) = fit_latencies(NASBench201(), column), design_of(_CELL)
    rows, known = design[column.isfinite()], column[column.isfinite()]
    hat = rows @ torch.linalg.pinv(rows)
    left_out = (known - hat @ known) / (1 - hat.diagonal())
    return fit, 1 - (left_out.square().sum() / (known - known.mean()).square().sum()).item()


def _write(out: Path, device: str, rows: Iterator[tuple[int, float, str]]) -> None:
    names, text = [*codes_by_name()], io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("index", "arch", device, "source"))
    writer.writerows((code, names[code], f"{max(time, 1e-6):.6g}", source) for code, time, source in rows)
    try:
        write_text(out, text.getvalue())
    except (OSError, ValueError) as error:  # a name that is no text in UTF-8 is a ValueError
        raise UserError(f"{shown_path(out)} cannot be written ({reason(error)}); give another --out.") from error


def _read_measured(out: Path, device: str, source: str) -> dict[int, float]:
    """Return the times that were measured in the same way; raise a UserError if the file is another one."""
    with open_regular(out, "latency table", 100_000_000) as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
        try:
            rows = [row for row in csv.DictReader(text) if row["source"] != PREDICTED]
            if {row["source"] for row in rows} <= {source}:
                return {codes_by_name()[row["arch"]]: float(row[device]) for row in rows}
        except (csv.Error, KeyError, TypeError, ValueError):
            pass
    raise UserError(
        f"{shown_path(out)} was not made by this command for the device {shortened(device)}, {source}; give another "
        f"file with --out."
    )
