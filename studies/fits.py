"""Is the choice among networks worth its time? ``python studies/fits.py DATA --budget 15m --folder F -o FILE``.

With each seed, two fits of the same images begin at the same time, one thread each. One is ``archgrad fit`` as it is.
The other trains one known network, a ResNet-20 as wide as suits the time, for all of it. Both test whether images may
be mirrored, choose their precision and test on the same images. FILE keeps what they found; it is not repeated, and a
stopped fit goes on in F.
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
from archgrad.system.files import write_text

PLANS = {"fit": ag.FitPlan(), "resnet": ag.FitPlan(search_epochs=0, networks=1, variants=0)}


def fitted(data: str, budget: str, plan: str, seed: int, home: Path) -> dict[str, Any]:
    """Fit, or go on, and return what was found."""
    result = (
        ag.resume(home)
        if (home / "fit.json").exists()
        else ag.fit(data, budget=budget, plan=PLANS[plan], seed=seed, threads=1, out=home, tell=print, progress=False)
    )
    test = result.selection.final.runs[0].test or {}
    return {
        "winner": str(result.candidate), "searched": result.candidate.searched, "test": test,
        "seconds": result.seconds, "total": result.total, "epochs": result.selection.final.epochs,
    }  # fmt: skip


def main() -> None:
    """Fit with every seed, both plans at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--budget", default="15m")
    parser.add_argument("--seeds", default="5")
    parser.add_argument("--folder", type=Path, required=True, help="where the fits run")
    parser.add_argument("-o", "--out", type=Path, required=True, help="what they found")
    parser.add_argument("--one", nargs=2, metavar=("PLAN", "SEED"), help="only this fit, for the script itself")
    given = parser.parse_args()
    if given.one:
        plan, seed = given.one
        home = given.folder / f"{plan}-seed{seed}"
        write_text(home.with_suffix(".json"), json.dumps(fitted(given.data, given.budget, plan, int(seed), home)))
        return
    found: dict[str, Any] = {"budget": given.budget, "seeds": {}}
    if given.out.exists():
        found = json.loads(given.out.read_text(encoding="utf-8"))
    for seed in (str(one) for one in seeds_of(given.seeds)):
        if seed in found["seeds"]:
            continue
        fits = [subprocess.Popen([sys.executable, *sys.argv, "--one", plan, seed]) for plan in PLANS]  # noqa: S603
        if sum(one.wait() for one in fits):
            raise SystemExit(f"a fit with seed {seed} failed")
        files = {plan: given.folder / f"{plan}-seed{seed}.json" for plan in PLANS}
        found["seeds"][seed] = {plan: json.loads(one.read_text(encoding="utf-8")) for plan, one in files.items()}
        write_text(given.out, json.dumps(found, indent=1) + "\n")
        print({plan: one["test"] for plan, one in found["seeds"][seed].items()}, flush=True)


if __name__ == "__main__":
    main()
