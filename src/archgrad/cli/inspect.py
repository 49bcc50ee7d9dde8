"""``archgrad inspect``: the health of a run by its records, and measures at its last checkpoint."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from archgrad.blackbox import SEARCHES
from archgrad.cli.console import say
from archgrad.cli.final_report import brief, diagnosis_content, show_cell
from archgrad.cli.search import with_threads
from archgrad.config import read_run_config
from archgrad.config.resolve import method_of
from archgrad.diagnostics import (
    Snapshot,
    average,
    average_similarity,
    compare,
    layer_similarity,
    measure_discretization,
    reference_at,
)
from archgrad.diagnostics.records import Record, decided_share, number_in, of_last_stage
from archgrad.errors import UserError, shortened
from archgrad.hypergradients import T1T2, Amended, FirstOrder, Hypergradient, Neumann, Unrolled
from archgrad.loop.folder import read_records
from archgrad.loop.measuring import evaluate_at_state, supernet_evaluation
from archgrad.loop.stages import reopen
from archgrad.method.reactions import diagnosed
from archgrad.report import draw_panels, panels_of
from archgrad.report.figure import can_draw
from archgrad.system.files import write_text
from archgrad.tasks import MetricInfo
from archgrad.training.weight_training import WeightTraining

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.loop import Experiment, SearchState

__all__ = [
    "inspect_diagnosis",
    "inspect_discretization",
    "inspect_estimates",
    "inspect_layers",
    "show_diagnosis",
    "show_discretization",
    "show_estimates",
    "show_layers",
]

_log = logging.getLogger("archgrad")
_OWN = "this run's"


def inspect_diagnosis(folder: Path, out: Path | None) -> dict[str, Any]:
    """Return a run's description, last finished epoch, diagnosis and curves, and draw the curves into ``out``.

    The default file is ``diagnosis.svg`` in the run directory. Without matplotlib it draws nothing. A search without
    gradients has no mixture, so there is nothing to diagnose or draw, and a training has nothing to diagnose.
    """
    config, records = read_run_config(folder), of_last_stage(read_records(folder))
    last = records[-1] if records else None
    found: dict[str, Any] = {
        "run": str(folder), "method": config.method, "data": config.data, "seed": config.seed,
        "space": config.settings.get("space.of", config.space),
        "epochs": config.all_epochs, "last_epoch": last, "stopped_to": None, "genotype": None, "diagnosis": None,
        "curves": {}, "picture": None,
    }  # fmt: skip
    if last is None:
        return found
    returned = records[int(last.get("stopped_to", len(records))) - 1]  # an earlier one if the search was stopped
    found |= {"stopped_to": last.get("stopped_to") and returned["epoch"], "genotype": returned["genotype"]}
    if config.method in SEARCHES:
        return found
    curves = {name: line for lines in panels_of(records).values() for name, line in lines.items()}
    if "space.architecture" in config.settings:  # a training
        return found | {"curves": curves, "picture": _draw(records, folder, out, None)}
    diagnosis = diagnosed(records, config.epochs or 0, method_of(config))
    picture = _draw(records, folder, out, diagnosis.since)
    return found | {"diagnosis": diagnosis_content(diagnosis), "curves": curves, "picture": picture}


def _draw(records: Sequence[Mapping[str, Any]], folder: Path, out: Path | None, since: int | None) -> str | None:
    if not can_draw():
        return None
    path = out or folder / "diagnosis.svg"
    try:
        draw_panels(records, path, since)
    except UserError as error:
        if out is not None:
            raise
        _log.warning("%s", error)
        return None
    return str(path)


def show_diagnosis(found: Mapping[str, Any], everything: bool = False) -> str:
    """Format the verdict with its reasons, three numbers and the cell; with ``everything`` also all measures."""
    last, diagnosis = found["last_epoch"], found["diagnosis"]
    names = ", ".join(str(found[name])[:100] for name in ("space", "data"))
    head = f"{str(found['method'])[:100]} on {names}, seed {shortened(found['seed'])}: "
    if last is None:
        return f"{head}no epoch of {found['epochs']} is finished"
    lines = [] if diagnosis is None else [diagnosis["text"] if everything else brief(diagnosis)]
    lines += [numbers] if (numbers := _three_numbers(last)) else []
    lines += [f"{head}{last['epoch']} of {found['epochs']} epochs", ""]
    if found["stopped_to"] is not None:
        lines.append(f"stopped at epoch {last['epoch']}, architecture of epoch {found['stopped_to']}:")
    lines.append(show_cell(found["genotype"]))
    if diagnosis is None and not found["curves"]:
        return "\n".join([*lines, "searched without gradients: an epoch is a query, and there is no diagnosis"])
    if everything:
        others = [name for name, value in last.items() if isinstance(value, float) and name not in found["curves"]]
        lines += [*(f"{name} {last[name]:.5g}" for name in others), "", *_table(found["curves"])]
    picture = found["picture"]
    drawn = f"curves: {picture}" if picture else "to draw curves, install matplotlib: `pip install 'archgrad[plot]'`"
    return "\n".join([*lines, drawn, *([] if everything else [_MORE])])


_MORE = "all measures: --all; deeper ones: `archgrad inspect --help`"


def _three_numbers(last: Record) -> str:
    """Say how good, how decided and how full of skip connections the last epoch is, as far as its record tells."""
    metric, decided = MetricInfo.of_record(last), decided_share(last)
    kinds = {"held-out": "heldout", "training": "train"} if decided is None else {"held-out": "heldout"}
    values = {kind: number_in(last, f"{name}_{metric.name}") for kind, name in kinds.items()}
    told = [f"{kind} {metric.name} {metric.show(value)}" for kind, value in values.items() if value is not None][:1]
    told += [] if decided is None else [f"decided {100 * decided:.0f} %"]
    return ", ".join([*told, *([f"skip connections {last['skips']}"] if "skips" in last else [])])


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


def inspect_discretization(folder: Path, device: str | None) -> dict[str, Any]:
    """Measure what the supernet loses of its main metric when its mixture becomes one architecture."""
    setup, state, stage = _reopen(folder, device)
    space, evaluation = setup.space, supernet_evaluation(setup, state)
    probabilities = setup.present_probabilities(state)
    if state.step:  # interrupted within an epoch: the saved genotype is that of the epoch before
        state.genotype = setup.method.discretizer.interim(space, probabilities, evaluation)
    if setup.method.discretizer.ties(space, probabilities, last=state.complete).everywhere:
        raise UserError(f"{folder} is undecided: all choices tie exactly, so there is no architecture to measure.")
    measured = measure_discretization(Snapshot(space, probabilities, state.genotype, evaluation), evaluation.batches)
    mixture, one = (measured[f"{kind}_{state.metric.name}"] for kind in ("mixture", "discrete"))
    found = {
        **_position(folder, state, stage),
        "architecture_of": state.history[-1].get("stopped_to") if state.history else None,
        "images": evaluation.batches * setup.evaluation_loader.batch_size,
        "held_out": setup.method.schedule.level == "bilevel" or setup.held_out_loader is not None,
        **measured,
        **state.metric.to_record(),
        "drop": state.metric.gain(mixture, one),
        "genotype": str(state.genotype),
    }
    _save(found, folder / "discretization.json")
    return found


def show_discretization(found: Mapping[str, Any]) -> str:
    """Format both metrics and their difference, with the epochs if the search returned an earlier architecture."""
    metric = MetricInfo.of_record(found)
    unit, lost = ("%", "points") if metric.unit == "%" else (metric.name, f"of {metric.name}")
    values = [found[f"{kind}_{metric.name}"] for kind in ("mixture", "discrete")] + [found["drop"]]
    shown = [f"{value:6.2f}" if metric.unit == "%" else f"{value:8.4g}" for value in values]
    earlier, last = found["architecture_of"], f"of epoch {found['epoch']}"
    mixture, one = ("", "") if earlier is None else (f" {last}", f" of epoch {earlier}")
    width = max(len(mixture), len(one))
    kind = "held-out images" if found["held_out"] else "training images (nothing was held out)"
    return "\n".join(
        [
            f"{_position_text(found)}, shared weights on {found['images']} {kind}:",
            f"  {'with the mixture' + mixture:<{22 + width}}    {shown[0]} {unit}",
            f"  {'with one architecture' + one:<{22 + width}}    {shown[1]} {unit}",
            f"  {'lost by discretization':<{22 + width}}    {shown[2]} {lost}",
            f"  {found['genotype']}",
        ]
    )


def inspect_layers(folder: Path, batches: int, device: str | None) -> dict[str, Any]:
    """Compare the cells of each stage of the supernet at the last checkpoint, and save the result in the run."""
    setup, state, stage = _reopen(folder, device)
    rows = []
    for batch in range(batches):
        with evaluate_at_state(setup, state, setup.step_batches(state.index + batch)) as point:
            rows.append(layer_similarity(point, state.supernet))
    found = {
        **_position(folder, state, stage),
        "batches": batches,
        "stages": [asdict(stage) for stage in average_similarity(rows)],
    }
    _save(found, folder / "layers.json")
    return found


def show_layers(found: Mapping[str, Any]) -> str:
    """Format the similarities as a table, with a line for each stage."""
    lines = [
        f"{_position_text(found)}, mean of {found['batches']} batches; cosines between the cells of a stage",
        "stage          cells   node gradients   convolutions",
    ]
    for stage in found["stages"]:
        height, width = stage["size"]
        name, convolutions = f"{stage['channels']}x{height}x{width}", stage["convolutions"]
        shown = "-" if convolutions is None else f"{convolutions:.3f}"
        lines.append(f"{name:<12} {stage['cells']:7}   {stage['node_gradients']:14.3f}   {shown:>12}")
    return "\n".join(lines)


def inspect_estimates(folder: Path, batches: int, steps: int, device: str | None, console: Console) -> dict[str, Any]:
    """Compare cheap hypergradients with a long conjugate gradient at the last checkpoint, and save the result.

    It averages over ``batches`` pairs of batches; the reference of each takes ``steps`` Hessian products.
    """
    setup, state, stage = _reopen(folder, device)
    estimators = _estimators(setup.method.hypergradient, setup.weights)
    references, rows = [], []
    for batch in range(batches):
        say(f"batch {batch + 1} of {batches}: {len(estimators)} estimates, reference of {steps} steps", console)
        inner, drawn = max(one.inner_batches for one in estimators.values()), setup.step_batches(state.index + batch)
        with evaluate_at_state(setup, state, drawn, inner) as point:
            references.append(reference_at(point, steps))
            rows.append(compare(point, estimators, references[-1].estimator, {_OWN: state.hypergradient_state}))
    found = {
        **_position(folder, state, stage),
        "batches": batches,
        "lr": setup.weights.lr_at(state.current_epoch),
        "reference": {"steps": steps, "damping": mean(one.estimator.damping for one in references)},
        "lambda_max": mean(one.lambda_max for one in references),
        "lambda_min": mean(one.lambda_min for one in references),
        "estimates": {name: _finite(asdict(average([row[name] for row in rows]))) for name in estimators},
    }
    _save(found, folder / "hypergradient.json")
    return found


def _estimators(own: Hypergradient, training: WeightTraining) -> dict[str, Hypergradient]:
    """Return the run's own estimator and the others to compare, by name, that know the training."""
    series: dict[str, Hypergradient] = {
        f"Neumann, {terms} terms": Neumann(terms, products="forward") for terms in (0, 1, 2, 5)
    }
    known = {
        "first order": FirstOrder(),
        _OWN: own,
        "unrolled": Unrolled(products="forward"),
        "T1-T2": T1T2(products="forward"),
        **series,
        "Neumann, 5 terms, auto": Neumann(5, "auto", products="forward"),
        "amended": Amended(products="forward"),
    }
    return {name: one for name, one in known.items() if one.knows(training)}


def show_estimates(found: Mapping[str, Any]) -> str:
    """Format the comparison as a table, with a line for each estimator."""
    reference = found["reference"]
    width = max(map(len, found["estimates"]))
    lines = [
        f"{_position_text(found)}, mean of {found['batches']} batches; learning rate {found['lr']:.3g}",
        f"eigenvalues of the inner Hessian: {found['lambda_min']:.3g} to {found['lambda_max']:.3g}",
        f"reference: {reference['steps']} steps of conjugate gradient, damping {reference['damping']:.3g}",
        f"{'':<{width}}   whole estimate     second term",
        f"{'estimate':<{width}}   cosine   length   cosine   of first",
    ]
    for name, row in found["estimates"].items():
        cosine, length, second_cosine, share = (math.nan if value is None else value for value in row.values())
        lines.append(f"{name:<{width}}   {cosine:6.3f}   {length:6.3g}   {second_cosine:6.3f}   {share:8.3g}")
    return "\n".join(lines)


def _reopen(folder: Path, device: str | None) -> tuple[Experiment, SearchState, int | None]:
    """Return the setup and the last saved state of a run, and the number of its last stage if it has stages."""
    config = read_run_config(folder)
    found = reopen(with_threads(config if device is None else replace(config, device=device)), folder)
    setup, state = found.runs[-1]
    return setup, state, None if found.whole.method.progressive is None else len(found.runs)


def _position(folder: Path, state: SearchState, stage: int | None) -> dict[str, Any]:
    """Return which run this is, and how many epochs and steps it has finished."""
    return {"run": str(folder), "stage": stage, "epoch": state.epoch, "step": state.step}


def _position_text(found: Mapping[str, Any]) -> str:
    stage = "" if found["stage"] is None else f" of stage {found['stage']}"
    within = f" and {found['step']} steps" if found["step"] else ""
    return f"after epoch {found['epoch']}{within}{stage}"


def _save(found: dict[str, Any], path: Path) -> None:
    """Write the result into the run directory; only warn if that fails."""
    try:
        write_text(path, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        _log.warning("%s cannot be written (%s).", path, error.strerror or error)


def _finite(numbers: dict[str, float]) -> dict[str, float | None]:
    """Replace NaN and infinity, which JSON lacks, by None."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
