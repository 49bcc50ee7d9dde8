"""``archgrad inspect`` from the records of a run: its diagnosis."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.errors import UserError

if TYPE_CHECKING:
    from archgrad.config import SearchConfig
    from archgrad.diagnostics import Diagnosis

__all__ = ["diagnose", "inspect_diagnosis", "show_diagnosis"]

_PICTURE = "diagnosis.svg"
_log = logging.getLogger("archgrad")


def inspect_diagnosis(folder: Path, out: Path | None) -> dict[str, Any]:
    """Return a run's description, last finished epoch, diagnosis and curves, and draw the curves into ``out``.

    The default file is ``diagnosis.svg`` in the run directory. Without matplotlib it draws nothing. A search without
    gradients has no mixture, so there is nothing to diagnose or draw.
    """
    from archgrad.blackbox import SEARCHES
    from archgrad.config import read_run_config
    from archgrad.diagnostics.records import of_last_stage
    from archgrad.loop.folder import read_records
    from archgrad.report import panels_of

    config, records = read_run_config(folder), of_last_stage(read_records(folder))
    found: dict[str, Any] = {
        "run": str(folder),
        "method": config.method,
        "space": config.space,
        "data": config.data,
        "seed": config.seed,
        "epochs": config.all_epochs,
        "last_epoch": records[-1] if records else None,
        "stopped_to": None,
        "genotype": None,
        "diagnosis": None,
        "curves": {},
        "picture": None,
    }
    if not records:
        return found
    returned = _returned_record(records)
    found |= {"stopped_to": records[-1].get("stopped_to") and returned["epoch"], "genotype": returned["genotype"]}
    if config.method in SEARCHES:
        return found
    diagnosis = diagnose(config, records)
    curves = {name: line for lines in panels_of(records).values() for name, line in lines.items()}
    picture = _draw(records, folder, out, diagnosis.since)
    text = str(diagnosis)
    return found | {"diagnosis": asdict(diagnosis) | {"text": text}, "curves": curves, "picture": picture}


def diagnose(config: SearchConfig, records: Sequence[Mapping[str, Any]]) -> Diagnosis:
    """Diagnose a search from its records (of the last stage) and suggest cures that fit its method."""
    from archgrad.config.resolve import method_of
    from archgrad.method.reactions import diagnosed

    return diagnosed(records, config.epochs or 0, method_of(config))


def show_diagnosis(found: Mapping[str, Any]) -> str:
    """Format the last epoch, the diagnosis, a small table and the path of the picture."""
    last = found["last_epoch"]
    names = ", ".join(str(found[name])[:100] for name in ("space", "data"))
    head = f"{str(found['method'])[:100]} on {names}, seed {found['seed']}: "
    if last is None:
        return f"{head}no epoch of {found['epochs']} is finished"
    numbers = [f"  {name} {value:.5g}" for name, value in last.items() if isinstance(value, float)]
    lines = [f"{head}{last['epoch']} of {found['epochs']} epochs", *numbers]
    if found["stopped_to"] is not None:
        lines.append(f"  stopped at epoch {last['epoch']}, architecture of epoch {found['stopped_to']}:")
    lines.append(f"  {found['genotype'] or 'undecided: all choices tie exactly'}")
    if found["diagnosis"] is None:
        return "\n".join([*lines, "", "searched without gradients: an epoch is a query, and there is no diagnosis"])
    lines += ["", found["diagnosis"]["text"], "", *_table(found["curves"])]
    picture = found["picture"]
    drawn = f"curves: {picture}" if picture else "to draw curves, install matplotlib: `pip install 'archgrad[plot]'`"
    return "\n".join([*lines, drawn])


def _returned_record(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the record with the architecture that the run returns: the last one, or an earlier one if it stopped."""
    place = int(records[-1].get("stopped_to", len(records)))
    return records[place - 1]


def _draw(records: Sequence[Mapping[str, Any]], folder: Path, out: Path | None, since: int | None) -> str | None:
    from archgrad.report import draw_panels
    from archgrad.report.figure import can_draw

    if not can_draw():
        return None
    path = out or folder / _PICTURE
    try:
        draw_panels(records, path, since)
    except UserError as error:
        if out is not None:
            raise
        _log.warning("%s", error)
        return None
    return str(path)


def _table(curves: Mapping[str, Sequence[tuple[int, float]]]) -> list[str]:
    """Show each curve at the first, the middle and the last epoch; ``-`` if it has no value yet."""
    every = sorted({epoch for line in curves.values() for epoch, _ in line})
    if not every:
        return []
    epochs = sorted({every[0], every[(len(every) - 1) // 2], every[-1]})
    width = max(map(len, curves))
    lines = [" ".join([" " * width, *(f"{f'epoch {epoch}':>12}" for epoch in epochs)])]
    for name, line in curves.items():
        shown = (_at(dict(line), epoch) for epoch in epochs)
        lines.append(" ".join([f"{name:<{width}}", *(f"{value:>12}" for value in shown)]))
    return [*lines, ""]


def _at(values: Mapping[int, float], epoch: int) -> str:
    """Return the value of an epoch, or the latest one before it: some measures skip epochs."""
    known = max((one for one in values if one <= epoch), default=None)
    return "-" if known is None else f"{values[known]:.4g}"
