"""Compute one run of a study: ``python -m archgrad.studies.worker STUDY RUN`` begins it or continues it."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

from archgrad.config import SearchConfig
from archgrad.errors import ArchgradError, FolderInUseError, SearchInterrupted, UserError, escaped
from archgrad.studies.engines import BUSY, STOP_WITH_STDIN
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import BUDGETS, PlannedRun, StudyPlan

__all__ = ["main", "run_planned", "with_oracle"]


def run_planned(folder: StudyFolder, plan: StudyPlan, run: PlannedRun) -> None:
    """Compute a run to its end, from its last checkpoint if it has one."""
    home = folder.run_folder(run)
    if folder.is_finished(run):
        return
    if run.variant.is_blackbox:
        _run_blackbox(home, plan, run)
        return
    import torch

    from archgrad import tables
    from archgrad.config import read_run_config
    from archgrad.loop.checkpoint import Checkpoints
    from archgrad.loop.entry import run_search

    begun = Checkpoints(home).exist()
    config = read_run_config(home) if begun else with_oracle(plan.config(run))
    torch.set_num_threads(config.threads or 1)
    oracles, sources = tables.oracles_for(config.build_space(), config.oracle_datasets(tables.datasets()))
    files = {"oracle.txt": f"{sources}\n"} if sources else {}
    run_search(config, out=home, resume=begun, files=files, interruptible=True, callbacks=oracles)


def _run_blackbox(home: Path, plan: StudyPlan, run: PlannedRun) -> None:
    """Search without gradients, which takes seconds: what a killed process has left is begun anew."""
    from archgrad.blackbox import run_blackbox

    config, knobs = with_oracle(plan.config(run)), run.variant.blackbox_settings
    budget = {name: knobs.pop(name, None) for name in BUDGETS}
    found = run_blackbox(
        run.variant.method, plan.space(run), run.benchmark.data, seed=run.seed, settings=knobs,
        oracle=config.oracle, data_dir=config.data_dir, **budget,
    )  # fmt: skip
    shutil.rmtree(home, ignore_errors=True)
    found.save(home)


def with_oracle(config: SearchConfig) -> SearchConfig:
    """Look up the cells on all data sets of the table if it knows the searched data and the study names none."""
    from archgrad import tables

    known = [data for table in tables.tables_for(str(config.space)) for data in table.datasets]
    return replace(config, oracle=",".join(known)) if config.oracle == "auto" and config.data in known else config


def main(arguments: list[str]) -> int:
    """Run the command; print a failure as one sentence, the last line of the log."""
    folder, name = StudyFolder(Path(arguments[0])), arguments[1]
    if hasattr(signal, "SIGUSR2"):  # Slurm sends it to all processes of a job, for the one that queues it again
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if STOP_WITH_STDIN in arguments:
        _stop_with_stdin()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        plan = folder.plan()
        run_planned(folder, plan, plan.run(name))
    except SearchInterrupted as interruption:
        return _fail(str(interruption), 128 + interruption.signal)
    except UserError as error:
        return _fail(str(error), BUSY if isinstance(error, FolderInUseError) else 2)
    except ArchgradError as error:
        return _fail(str(error), 1)
    except Exception as error:
        logging.getLogger("archgrad").exception("this run failed")
        return _fail(f"{type(error).__name__}: {escaped(str(error))[:500]}", 1)
    return 0


def _fail(sentence: str, code: int) -> int:
    """Print why the run ended, on one line, and return its exit code."""
    sys.stderr.write(f"{' '.join(sentence.split())}\n")
    return code


def _stop_with_stdin() -> None:
    """Stop this run, with a checkpoint, when the process that started it is gone and the pipe from it closes."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
