"""Choose among architectures by trainings, and train the best one with fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.data import Data, as_data
from archgrad.distributed.processes import processes
from archgrad.errors import UserError, look_up
from archgrad.loop.global_state import take_turns
from archgrad.parts.fields import Count, check_value
from archgrad.report import to_svg
from archgrad.report.page import to_html
from archgrad.report.page.trainings import page_of_training
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system.amounts import counted
from archgrad.system.files import as_path, write_text
from archgrad.tasks import MetricInfo
from archgrad.workflows.folders import REPORT, run_alone, to_json
from archgrad.workflows.halving import Round, hold_round
from archgrad.workflows.selection import HALVING, PROTOCOLS, SelectionPlan
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training import Training, as_genotype, is_begun, seeds_of

__all__ = ["SelectionResult", "run_selection", "select"]

SELECTION = "selection.json"
_FINAL = "final"
"""The folder of the last training."""


@dataclass(frozen=True, repr=False)
class SelectionResult:
    """The rounds of a selection by a ``protocol``, and the last training of the best architecture.

    ``search_seconds`` is what the searches took, by their run directories, where these are known. ``departures`` says
    what differs from the published protocol.
    """

    rounds: tuple[Round, ...]
    final: TrainResult
    metric: MetricInfo
    search_seconds: Mapping[str, float] = field(default_factory=dict)
    protocol: str = HALVING
    departures: tuple[str, ...] = ()

    @property
    def genotype(self) -> Genotype:
        """The selected architecture."""
        return self.final.genotype

    def __repr__(self) -> str:
        return f"<SelectionResult {self._summary}>"

    def _repr_html_(self) -> str:
        """Return a few lines and the drawn cell for notebooks."""
        return f"<p><b>SelectionResult</b>: {escape(self._summary)}</p>{to_svg(self.genotype)}"

    @property
    def _summary(self) -> str:
        return f"{self.genotype}, {counted(len(self.rounds), 'round')}, {str(self.final)[1:-1]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json``."""
        return {
            "metric": self.metric.name,
            "protocol": self.protocol,
            "departures": list(self.departures),
            "search_seconds": dict(self.search_seconds),
            "rounds": [one.to_dict() for one in self.rounds],
            "final": self.final.to_dict(),
            "final_seconds": round(sum(run.seconds for run in self.final.runs), 3),
        }


def select(
    space: SearchSpace | str,
    genotypes: Sequence[Genotype | str],
    data: Any = "digits",
    *,
    preset: str = "quick",
    protocol: str = HALVING,
    seeds: Count | None = None,
    test: Any = None,
    out: Path | str | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> SelectionResult:
    """Train architectures, rank them by held-out images, and train the best one again; test images choose nothing.

    ``protocol`` is one of

    - "halving": train each one briefly, drop the worse half, and repeat; train the best with ``seeds`` fresh seeds (3).
      The rounds train for 1/2, 1/4, … of the epochs of the last training. Test images measure only that.
    - "gaea": train each one once in full, and the best with ``seeds`` fresh seeds (10) on all images (GAEA, C.1). Test
      images measure only the latter.
    - "amended": train each one in full with ``seeds`` seeds (3), and test them all (Amended-DARTS, A.4).

    The last two are published for the architectures of five searches; the result names what differs. The other
    arguments are those of :func:`archgrad.train`.
    """
    check_value("seeds", seeds, Count | None)
    rules = look_up("protocol", protocol, PROTOCOLS)
    with take_turns():
        given = [as_genotype(one) for one in genotypes]
        if not given:
            raise UserError("there are no architectures to select from; give at least one.")
        trainings = [Training.of(space, one, as_data(data), preset=preset, test=test, **options) for one in given]
        training = replace(trainings[0], trains_on_all=False)
        found = tuple(dict.fromkeys(given))
        plan = SelectionPlan(training, found, seeds or rules.seeds, protocol=protocol, searches=len(given))
        return run_selection(plan, out=out, interruptible=interruptible, callbacks=callbacks)


def run_selection(
    plan: SelectionPlan,
    *,
    data: Data | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> SelectionResult:
    """Carry out a selection; ``tell`` is told each training before it begins."""
    folder = None if out is None else as_path("out", out)
    with run_alone(plan.training.config.device, folder):
        training, data, tests = plan.training.complete(data)
        plan.check(tests)
        plan = replace(plan, training=training)
        if folder is not None and not resume:
            plan.write(folder, data)
        running = _Running(plan, data, folder, resume, interruptible, callbacks, tell)
        result = running.run()
        if folder is not None and processes().rank == 0:
            write_text(folder / SELECTION, to_json(result.to_dict()))
            write_text(folder / REPORT, to_html(page_of_training(folder)))
        return result


@dataclass(frozen=True)
class _Running:
    """A selection that runs: how and where its trainings do."""

    plan: SelectionPlan
    data: Data
    folder: Path | None
    resume: bool
    interruptible: bool
    callbacks: Sequence[Callback]
    tell: Callable[[str], None]

    def run(self) -> SelectionResult:
        """Train in rounds, and then the best one with fresh seeds, if the protocol says so."""
        plan, final = self.plan, self.plan.training.epochs
        left, rounds, results = list(plan.names), list[Round](), dict[str, TrainResult]()
        for number in range(1, plan.rounds + 1):
            done, results = self._round(number, plan.epochs_of(number, final), left)
            rounds.append(done)
            left = done.names
        best = self._last(left[0], final) if plan.rules.fresh else results[left[0]]
        told = (plan.search_seconds, plan.protocol, plan.departures)
        return SelectionResult(tuple(rounds), best, best.metric, *told)

    def _round(self, number: int, epochs: int, left: list[str]) -> tuple[Round, dict[str, TrainResult]]:
        """Train all candidates that are left."""
        plan, last = self.plan, not self.plan.rules.fresh
        seeds = seeds_of(plan.seeds if last else 1, plan.training.config.seed)
        length = counted(epochs, "epoch") + (f", {counted(len(seeds), 'seed')}" if last else "")

        def train(name: str, training: Training) -> TrainResult:
            title = f"round {number} of {plan.rounds}: architecture {name}, {length}"
            return self._train(training, f"round-{number}/{name}", title)

        entered = {
            name: plan.training.with_changes(plan.names[name], epochs, seeds, tested=last, held_out=None)
            for name in left
        }  # fmt: skip
        return hold_round(entered, train, math.ceil(len(left) / 2) if plan.rules.halves else 1)

    def _last(self, name: str, epochs: int) -> TrainResult:
        """Train the best one with fresh seeds, and test it."""
        seeds = seeds_of(self.plan.seeds, self.plan.training.config.seed + 1)
        held_out = 0.0 if self.plan.rules.on_all else None
        training = self.plan.training.with_changes(self.plan.names[name], epochs, seeds, tested=True, held_out=held_out)
        return self._train(training, _FINAL, f"training the best one with {counted(len(seeds), 'fresh seed')}")

    def _train(self, training: Training, place: str, title: str) -> TrainResult:
        """Train one candidate in the folder ``place``."""
        self.tell(title)
        home = None if self.folder is None else self.folder / place
        return run_training(
            training, data=self.data, out=home, resume=self.resume and is_begun(home),
            interruptible=self.interruptible, callbacks=self.callbacks,
        )  # fmt: skip
