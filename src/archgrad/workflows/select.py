"""Choose among architectures by trainings, and train the best one with fresh seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.config.resolve import resolve
from archgrad.data import Data, as_data
from archgrad.distributed.processes import joined
from archgrad.errors import UserError, look_up
from archgrad.loop.global_state import take_turns
from archgrad.parts.fields import Count, check_value
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system.files import as_path, exists
from archgrad.tasks import MetricInfo
from archgrad.workflows.continuing import continued_in
from archgrad.workflows.protocols import HALVING, PROTOCOLS, Protocol
from archgrad.workflows.selection_folder import begin_selection, write_selection
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult, mean_and_deviation
from archgrad.workflows.training_config import as_genotype, training_config
from archgrad.workflows.training_plan import TrainingPlan, seeds_of

__all__ = ["Candidate", "Round", "Selection", "SelectionPlan", "run_selection", "select"]

_FINAL = "final"
"""The folder of the last training."""


@dataclass(frozen=True)
class Candidate:
    """An architecture in one round: the main metric on held-out images, and the time of its trainings.

    ``test`` is the main metric on test images in each training, empty if they are not its last ones.
    """

    genotype: Genotype
    value: float
    seconds: float
    test: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json`` about it."""
        tested = {"test": mean_and_deviation(list(self.test))} if self.test else {}
        return {"genotype": str(self.genotype), "heldout": self.value, "seconds": round(self.seconds, 3), **tested}


@dataclass(frozen=True)
class Round:
    """Trainings of all candidates that are left, best first; ``kept`` of them go on."""

    epochs: int
    candidates: tuple[Candidate, ...]
    kept: int

    @property
    def seconds(self) -> float:
        """The time of the round."""
        return sum(one.seconds for one in self.candidates)


@dataclass(frozen=True)
class Selection:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json``."""
        return {
            "metric": self.metric.name,
            "protocol": self.protocol,
            "departures": list(self.departures),
            "search_seconds": dict(self.search_seconds),
            "rounds": [
                {
                    "epochs": one.epochs, "seconds": round(one.seconds, 3), "kept": one.kept,
                    "candidates": [each.to_dict() for each in one.candidates],
                }
                for one in self.rounds
            ],
            "final": self.final.to_dict(),
            "final_seconds": round(sum(run.seconds for run in self.final.runs), 3),
        }  # fmt: skip


@dataclass(frozen=True)
class SelectionPlan:
    """What to select from: trainings are as ``training`` says, for each of the ``genotypes``.

    The last trainings have the ``seeds`` after the first one, which all rounds share. ``search_seconds`` is what the
    searches took, by their run directories, where these are known. Several ``searches`` may have found one genotype.
    """

    training: TrainingPlan
    genotypes: tuple[Genotype, ...]
    seeds: int = 3
    search_seconds: Mapping[str, float] = field(default_factory=dict)
    protocol: str = HALVING
    searches: int | None = None

    @property
    def rules(self) -> Protocol:
        """The protocol."""
        return look_up("protocol", self.protocol, PROTOCOLS)

    @property
    def departures(self) -> tuple[str, ...]:
        """What differs from the published protocol."""
        return self.rules.departures(self.searches or len(self.genotypes), self.seeds, self.training.preset)

    @property
    def rounds(self) -> int:
        """The number of rounds; one candidate needs none before its training with fresh seeds."""
        if self.rules.halves:
            return math.ceil(math.log2(len(self.genotypes)))
        return int(len(self.genotypes) > 1 or not self.rules.fresh)

    def epochs_of(self, number: int, final: int) -> int:
        """Return the epochs in round ``number``, counted from 1, if the last training has ``final`` epochs."""
        return max(final >> (self.rounds - number + 1), 1) if self.rules.halves else final

    def check(self, tests: Data | None) -> None:
        """Reject a selection without images that rank, or a published one without images that test."""
        if not self.training.config.held_out:
            raise UserError("held_out is 0, but a selection ranks by held-out images; give a share such as 0.1.")
        if self.rules.searches and tests is None:
            raise UserError(
                f"the protocol {self.protocol!r} measures its last trainings on test images, but the data has none; "
                f"give them (--test)."
            )


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
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Selection:
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
        found = tuple(dict.fromkeys(given))
        if not found:
            raise UserError("there are no architectures to select from; give at least one.")
        config = training_config(space, found[0], as_data(data), preset, **options)
        for genotype in found[1:]:
            training_config(space, genotype, as_data(data), preset, **options)
        training = TrainingPlan(config, preset, (config.seed,), test)
        plan = SelectionPlan(training, found, seeds or rules.seeds, protocol=protocol, searches=len(given))
        return run_selection(plan, out=out, resume=resume, interruptible=interruptible, callbacks=callbacks)


def run_selection(
    plan: SelectionPlan,
    *,
    data: Data | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> Selection:
    """Carry out a selection; ``tell`` is told each training before it begins."""
    folder = None if out is None else as_path("out", out)
    with take_turns(), joined(plan.training.config.device), continued_in(folder):
        training, data, tests = plan.training.complete(data)
        plan.check(tests)
        final = resolve(training.config).training.epochs
        if folder is not None:
            begin_selection(folder, plan, training, data, resume)
        trainings = _Trainings(training, data, folder, resume, interruptible, callbacks, tell)
        left, rounds, results = plan.genotypes, list[Round](), dict[Genotype, TrainResult]()
        for number in range(1, plan.rounds + 1):
            done = _round(plan, number, plan.epochs_of(number, final), left, trainings, results)
            rounds.append(done)
            left = tuple(one.genotype for one in done.candidates[: done.kept])
        best = _last(plan, left[0], final, trainings) if plan.rules.fresh else results[left[0]]
        told = (plan.search_seconds, plan.protocol, plan.departures)
        selection = Selection(tuple(rounds), best, best.metric, *told)
        if folder is not None:
            write_selection(folder, selection.to_dict())
        return selection


@dataclass(frozen=True)
class _Trainings:
    """How and where the trainings of a selection run."""

    plan: TrainingPlan
    data: Data
    folder: Path | None
    resume: bool
    interruptible: bool
    callbacks: Sequence[Callback]
    tell: Callable[[str], None]

    def run(
        self, genotype: Genotype, epochs: int, seeds: tuple[int, ...], place: str, title: str, **how: Any
    ) -> TrainResult:
        """Train one candidate in the folder ``place``; ``how`` are further arguments of ``with_changes``."""
        self.tell(title)
        home = None if self.folder is None else self.folder / place
        again = home is not None and self.resume and exists(home / "config.toml")
        return run_training(
            self.plan.with_changes(genotype, epochs, seeds, **how), data=self.data, out=home, resume=again,
            interruptible=self.interruptible, callbacks=self.callbacks,
        )  # fmt: skip


def _last(plan: SelectionPlan, genotype: Genotype, epochs: int, trainings: _Trainings) -> TrainResult:
    """Train the best one with fresh seeds, and test it."""
    seeds = seeds_of(plan.seeds, plan.training.config.seed + 1)
    title = f"training the best one with {_count(len(seeds), 'fresh seed')}"
    return trainings.run(genotype, epochs, seeds, _FINAL, title, held_out=0.0 if plan.rules.on_all else None)


def _round(
    plan: SelectionPlan, number: int, epochs: int, left: tuple[Genotype, ...], trainings: _Trainings,
    results: dict[Genotype, TrainResult],
) -> Round:  # fmt: skip
    """Train all candidates that are left, and rank them; ``results`` keeps trainings that are the last ones."""
    last, found = not plan.rules.fresh, []
    seeds = seeds_of(plan.seeds if last else 1, plan.training.config.seed)
    for genotype in left:
        place = plan.genotypes.index(genotype) + 1
        title = f"round {number} of {plan.rounds}: architecture {place}, {_count(epochs, 'epoch')}"
        title += f", {_count(len(seeds), 'seed')}" if last else ""
        result = trainings.run(genotype, epochs, seeds, f"round-{number}/{place}", title, tested=last)
        results |= {genotype: result} if last else {}
        value, metric = statistics.fmean(result.values("heldout")), result.metric
        seconds = sum(run.seconds for run in result.runs)
        found.append(Candidate(genotype, value, seconds, tuple(result.values("test"))))
    sign = -1 if metric.higher_is_better else 1
    ranked = sorted(found, key=lambda one: math.inf if math.isnan(one.value) else sign * one.value)
    return Round(epochs, tuple(ranked), math.ceil(len(ranked) / 2) if plan.rules.halves else 1)


def _count(number: int, what: str) -> str:
    """Return a number of things.

    >>> _count(1, "epoch"), _count(2, "epoch")
    ('1 epoch', '2 epochs')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
