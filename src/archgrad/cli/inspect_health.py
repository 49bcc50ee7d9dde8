"""``archgrad inspect`` from the records of runs: the diagnosis of one, or the score of the warnings in many."""

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

__all__ = ["diagnose", "inspect_diagnosis", "inspect_warnings", "show_diagnosis", "show_warnings"]

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
    from archgrad.loop.records import read_records
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
    from archgrad.reactions import diagnosed

    return diagnosed(records, config.epochs or 0, config.build_method())


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


def inspect_warnings(folders: Sequence[Path]) -> dict[str, Any]:
    """Return precision, recall and lead time of the doctor's warnings on finished runs."""
    from archgrad.config import read_run_config
    from archgrad.diagnostics.records import of_last_stage
    from archgrad.diagnostics.warning_scores import precision_recall
    from archgrad.loop.records import read_records

    runs: dict[str, list[dict[str, Any]]] = {}
    planned: dict[str, int] = {}
    for folder in folders:
        config, records, name = read_run_config(folder), read_records(folder), str(folder)
        if name in runs:
            raise UserError(f"{folder} is given twice; leave one of them out.")
        if not _is_finished(folder, config.all_epochs, records):
            raise UserError(
                f"{folder} has finished {len(records)} of {config.all_epochs} epochs, so it is not known yet whether "
                f"it collapses; leave it out, or resume it first."
            )
        runs[name] = of_last_stage(records)
        planned[name] = max(config.epochs or 0, len(runs[name]))
    score = precision_recall(runs, epochs=planned)
    outcomes = [asdict(one) | {"lead": one.lead} for one in score.outcomes]
    return {"precision": score.precision, "recall": score.recall, "lead": score.lead, "runs": outcomes}


def _is_finished(folder: Path, epochs: int | None, records: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a run has ended: it has all its records, it stopped early, or it has a summary."""
    stopped = bool(records) and "stopped_to" in records[-1]
    return epochs is None or len(records) >= epochs or stopped or (folder / "summary.json").is_file()


def show_warnings(found: Mapping[str, Any]) -> str:
    """Format the scores as a table, with a line for each run."""
    runs = found["runs"]
    width = max(len("run"), *(len(one["run"]) for one in runs))
    lines = [f"{'run':<{width}}   warned   collapsed   since   lead   skips   oracle"]
    for one in runs:
        truth = "yes" if one["collapsed"] else "no"
        shown = [_cell(one["warned"], 6), f"{truth:>9}", _cell(one["settled"], 5), _cell(one["lead"], 4)]
        oracle = "-" if one["accuracy"] is None else f"{one['accuracy']:.2f}"
        lines.append(
            "   ".join([f"{one['run']:<{width}}", *shown, f"{100 * one['skip_share']:3.0f} %", f"{oracle:>6}"])
        )
    warned, collapsed = sum(one["warned"] is not None for one in runs), sum(one["collapsed"] for one in runs)
    right = sum(one["collapsed"] and one["warned"] is not None for one in runs)
    lines += [
        f"precision: {_part(found['precision'])}, {right} of {warned} warned runs collapsed",
        f"recall: {_part(found['recall'])}, {right} of {collapsed} collapsed runs were warned",
    ]
    return "\n".join(lines if found["lead"] is None else [*lines, f"lead time: {found['lead']:.1f} epochs on average"])


def _cell(number: int | None, width: int) -> str:
    return f"{'-' if number is None else number:>{width}}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
