"""Is a fit worth its time? ``python studies/fits.py DATA --budget 10m --folder F -o FILE``.

Four ways to a network of the same images in the same time, one thread each, two at a time:

- ``fit``: ``archgrad fit`` as it is,
- ``known``: a fit that chooses nothing, so that one ResNet as deep and wide as suits the time has all of it,
- ``resnet`` and ``mobilenet``: ``archgrad train`` with this network and ``--time-limit``, at sizes that train about as
  many images in a second: a ResNet-20 with 16 channels, a MobileNetV2 of 8 blocks with 16 channels.

The first two run beside each other with every seed, then the other two. FILE keeps what was found, which is not
repeated; what was stopped goes on in F.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import archgrad as ag
from archgrad.studies.plan import seeds_of
from archgrad.system.amounts import read_duration
from archgrad.system.files import write_text

PLANS = {"fit": ag.FitPlan(), "known": ag.FitPlan(search_epochs=0, networks=1, variants=0)}
SIZES = {"resnet": {"channels": 16, "cells": 3}, "mobilenet": {"channels": 16, "cells": 8}}
PAIRS = (("fit", "resnet"), ("known", "mobilenet"))


def fitted(data: str, budget: str, way: str, seed: int, home: Path) -> dict[str, Any]:
    """Fit, or go on, and return what was found."""
    result = (
        ag.resume(home)
        if (home / "fit.json").exists()
        else ag.fit(data, budget=budget, plan=PLANS[way], seed=seed, threads=1, out=home, tell=print, progress=False)
    )
    final = result.selection.final
    chosen = {"winner": str(result.candidate), "searched": result.candidate.searched, "total": result.total}
    return {**chosen, **_tested(final)}


def trained(data: str, budget: str, way: str, seed: int, home: Path) -> dict[str, Any]:
    """Train a known network, or go on, and return what was found."""
    how = {**SIZES[way], "image_size": 32, "time_limit": read_duration("budget", budget) / 60, "threads": 1}
    begun = (home / "config.toml").exists()
    return _tested(
        ag.resume(home) if begun else ag.train(way, way, data, seeds=[seed], out=home, progress=False, **how)
    )


def _tested(result: ag.TrainResult) -> dict[str, Any]:
    run, cost = result.runs[0], result.cost
    size = {"parameters": cost.parameters, "multiply_adds": cost.multiply_adds}
    return {"test": run.test, "epochs": result.epochs, "seconds": run.seconds, **size}


def main() -> None:
    """Compare the four ways with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--seeds", default="5")
    parser.add_argument("--folder", type=Path, required=True, help="where the networks train")
    parser.add_argument("-o", "--out", type=Path, required=True, help="what they found")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "SEED"), help="only this network, for the script itself")
    given = parser.parse_args()
    if given.one:
        way, seed = given.one
        home = given.folder / f"{way}-seed{seed}"
        one = (fitted if way in PLANS else trained)(given.data, given.budget, way, int(seed), home)
        write_text(home.with_suffix(".json"), json.dumps(one))
        return
    found: dict[str, Any] = {"data": given.data, "budget": given.budget, "seeds": {}}
    if given.out.exists():
        found = json.loads(given.out.read_text(encoding="utf-8"))
    for pair in PAIRS:
        for seed in (str(one) for one in seeds_of(given.seeds)):
            own = found["seeds"].setdefault(seed, {})
            if set(pair) <= set(own):
                continue
            ways = [subprocess.Popen([sys.executable, *sys.argv, "--one", way, seed]) for way in pair]  # noqa: S603
            if sum(way.wait() for way in ways):
                raise SystemExit(f"a network with seed {seed} failed")
            own.update({way: json.loads((given.folder / f"{way}-seed{seed}.json").read_text()) for way in pair})
            write_text(given.out, json.dumps(found, indent=1) + "\n")
            print(seed, {way: own[way]["test"] for way in pair}, flush=True)


if __name__ == "__main__":
    main()
