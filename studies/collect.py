"""Keep what a study has found in small files: ``python studies/collect.py STUDY RESULTS``; ``--restore`` goes back.

RESULTS gets the plan and, of every finished run, its configuration and what each epoch measured, without weights and
without paths of this machine. Restored into an empty folder, these runs count as finished: `archgrad compare STUDY`
computes only what is missing, on any machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from archgrad.studies import Study
from archgrad.system.files import write_text
from archgrad.system.run_kind import write_kind

PLAN, RECORDS, CONFIG, SUMMARY = "study.toml", "metrics.jsonl", "config.toml", "summary.json"
MIXTURE = "mixture.json"
KEPT = (
    "epoch", "stage", "genotype", "seconds", "level", "entropy", "entropy_max", "lead", "skips", "skip_share",
    "movement", "alignment", "sign_alignment", "train_loss", "train_accuracy", "arch_loss", "arch_accuracy",
    "heldout_loss", "heldout_accuracy", "heldout_chance", "mixture_accuracy", "discrete_accuracy", "eigenvalue",
    "diagnosis", "stopped_to", "switched_from", "ties", "queries", "simulated_seconds",
)  # fmt: skip
"""The measures of an epoch that are kept, beside those that begin with ``oracle_`` or ``probability_``."""
ABOUT = ("archgrad", "machine", "identity", "epochs", "seconds", "genotype")
"""What is kept of the summary of a run."""


def slim(record: dict[str, object]) -> dict[str, object]:
    """Return the kept measures of an epoch, with six digits."""
    kept = {name: one for name, one in record.items() if name in KEPT or name.startswith(("oracle_", "probability_"))}
    return {name: float(f"{one:.6g}") if isinstance(one, float) else one for name, one in kept.items()}


def collect(study: Study, results: Path, mixtures: bool = False) -> int:
    """Write the small files of all finished runs, with the mixtures if asked; return how many there are."""
    write_text(results / PLAN, (study.folder.path / PLAN).read_text(encoding="utf-8"))
    finished = [one.run for one in study.status if one.state == "finished"]
    for run in finished:
        home, there = study.folder.run_folder(run), results / run.name
        if (there / SUMMARY).exists():
            continue
        lines = (home / RECORDS).read_text(encoding="utf-8").splitlines()
        write_text(there / RECORDS, "".join(json.dumps(slim(json.loads(line))) + "\n" for line in lines))
        settings = (home / CONFIG).read_text(encoding="utf-8").splitlines(keepends=True)
        write_text(there / CONFIG, "".join(line for line in settings if not line.startswith("data_dir ")))
        if mixtures and (home / MIXTURE).exists():
            write_text(there / MIXTURE, (home / MIXTURE).read_text(encoding="utf-8"))
        summary = json.loads((home / SUMMARY).read_text(encoding="utf-8"))
        write_text(there / SUMMARY, json.dumps({name: summary[name] for name in ABOUT if name in summary}) + "\n")
    return len(finished)


def restore(results: Path, study: Path) -> int:
    """Copy the small files into a folder in which the study can go on; return how many runs there are."""
    files = [path for path in results.rglob("*") if path.is_file()]
    for path in files:
        target = study / path.relative_to(results)
        if not target.exists():
            write_text(target, path.read_text(encoding="utf-8"))
    write_kind(study, "study")
    return sum(path.name == SUMMARY for path in files)


def main() -> None:
    """Collect, or restore."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, metavar="STUDY")
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("--restore", action="store_true", help="copy RESULTS into STUDY, so that the study can go on")
    parser.add_argument("--mixtures", action="store_true", help="keep the mixture of every epoch, too")
    given = parser.parse_args()
    if given.restore:
        count = restore(given.results, given.study)
    else:
        count = collect(Study.load(given.study), given.results, given.mixtures)
    print(f"{count} finished runs")


if __name__ == "__main__":
    main()
