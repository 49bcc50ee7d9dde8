"""Measure what an epoch of each variant of a study takes on an idle core: ``python studies/seconds.py PLAN -o FILE``.

Runs of a study share their machines with other work, so their own seconds compare nothing. Here a few steps of each
variant are timed in one process and one thread, the first variant again at the end: its two times tell how idle the
core was. ``studies/publish.py`` compares at equal time by the file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from archgrad.config.resolve import resolve
from archgrad.loop.estimate import step_seconds
from archgrad.loop.experiment import Experiment
from archgrad.studies.plan import PlannedRun, plan_from_toml
from archgrad.system.files import write_text


def epoch_seconds(config: Any) -> float:
    """Return the seconds of an epoch: its steps of weights and architecture, without measurements."""
    data, parts = config.load_data(), resolve(config)
    return Experiment.of(parts, data).steps * step_seconds(parts, data)


def main() -> None:
    """Measure, and write the seconds by variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    plan = plan_from_toml(given.plan)
    variants = [one for one in plan.variants if not one.is_blackbox]
    found: dict[str, float] = {}
    for one in [*variants, variants[0]]:
        name = f"{one.name}, again" if one.name in found else one.name
        found[name] = round(epoch_seconds(plan.config(PlannedRun(plan.benchmarks[0], one, plan.seeds[0]))), 3)
        print(f"{name}: {found[name]} seconds an epoch", flush=True)
    write_text(given.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
