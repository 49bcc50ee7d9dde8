"""Choose among architectures by brief trainings, and train the best one with fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.data import Data, as_data
from archgrad.distributed.processes import joined
from archgrad.errors import UserError
from archgrad.fields import Count, check_value
from archgrad.files import as_path, exists
from archgrad.loop.global_state import take_turns
from archgrad.spaces import Genotype, SearchSpace
from archgrad.tasks import MetricInfo
from archgrad.workflows.continuing import continued_in
from archgrad.workflows.selection_folder import begin_selection, write_selection
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training_config import as_genotype, training_config
from archgrad.workflows.training_plan import TrainingPlan

__all__ = ["Candidate", "Round", "Selection", "SelectionPlan", "run_selection", "select"]

_FINAL = "final"
"""The folder of the last training."""


@dataclass(frozen=True)
class Candidate:
    """An architecture in one round: the main metric on held-out images, and the time of its training."""

    genotype: Genotype
    value: float
    seconds: float


@dataclass(frozen=True)
class Round:
    """Brief trainings of all candidates that are left, best first; ``kept`` of them go on."""

    epochs: int
    candidates: tuple[Candidate, ...]
    kept: int

    @property
    def seconds(self) -> float:
        """The time of the round."""
        return sum(one.seconds for one in self.candidates)


@dataclass(frozen=True)
class Selection:
    """The rounds of a selection, and the training of the best architecture with fresh seeds.

    ``search_seconds`` is what the searches took, by their run directories, where these are known.
    """

    rounds: tuple[Round, ...]
    final: TrainResult
    metric: MetricInfo
    search_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def genotype(self) -> Genotype:
        """The selected architecture."""
        return self.final.genotype

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json``."""
        return {
            "metric": self.metric.name,
            "search_seconds": dict(self.search_seconds),
            "rounds": [
                {
                    "epochs": one.epochs, "seconds": round(one.seconds, 3), "kept": one.kept,
                    "candidates": [
                        {"genotype": str(each.genotype), "heldout": each.value, "seconds": round(each.seconds, 3)}
                        for each in one.candidates
                    ],
                }
                for one in self.rounds
            ],
            "final": self.final.to_dict(),
            "final_seconds": round(sum(run.seconds for run in self.final.runs), 3),
        }  # fmt: skip


@dataclass(frozen=True)
class SelectionPlan:
    """What to select from: trainings are as ``training`` says, for each of the ``genotypes``.

    The last trainings have the seeds after the first one, which all rounds share. Of n candidates the better half goes
    on to the next round, whose trainings are twice as long (successive halving, Jamieson & Talwalkar, 2016).
    ``search_seconds`` is what the searches took, by their run directories, where these are known.
    """

    training: TrainingPlan
    genotypes: tuple[Genotype, ...]
    seeds: int = 3
    search_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return math.ceil(math.log2(len(self.genotypes))) if len(self.genotypes) > 1 else 0

    def epochs_of(self, number: int, final: int) -> int:
        """Return the epochs in round ``number``, counted from 1, if the last training has ``final`` epochs."""
        return max(final >> (self.rounds - number + 1), 1)


def select(
    space: SearchSpace | str,
    genotypes: Sequence[Genotype | str],
    data: Any = "digits",
    *,
    preset: str = "quick",
    seeds: Count = 3,
    test: Any = None,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Selection:
    """Train each architecture briefly, drop the worse half, and repeat; train the best with ``seeds`` fresh seeds.

    The rounds train for 1/2, 1/4, … of the epochs of the last training, and rank by held-out images. Test images
    measure only the last training. The other arguments are those of :func:`archgrad.train`.
    """
    check_value("seeds", seeds, Count)
    with take_turns():
        found = tuple(dict.fromkeys(as_genotype(one) for one in genotypes))
        if not found:
            raise UserError("there are no architectures to select from; give at least one.")
        config = training_config(space, found[0], as_data(data), preset, **options)
        for genotype in found[1:]:
            training_config(space, genotype, as_data(data), preset, **options)
        plan = SelectionPlan(TrainingPlan(config, preset, (config.seed,), test), found, seeds)
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
    training = plan.training
    if not training.config.held_out:
        raise UserError("held_out is 0, but a selection ranks by held-out images; give a share such as 0.1.")
    with take_turns(), joined(training.config.device), continued_in(folder):
        training, data, _ = training.complete(data)
        final = training.config.build_training(training.config.build_space(), training.config.build_method()).epochs
        if folder is not None:
            begin_selection(folder, plan, training, data, resume)
        trainings = _Trainings(training, data, folder, resume, interruptible, callbacks, tell)
        left, rounds = plan.genotypes, list[Round]()
        for number in range(1, plan.rounds + 1):
            done = _round(plan, number, plan.epochs_of(number, final), left, trainings)
            rounds.append(done)
            left = tuple(one.genotype for one in done.candidates[: done.kept])
        seeds = tuple(range(training.config.seed + 1, training.config.seed + 1 + plan.seeds))
        title = f"training the best one with {_count(len(seeds), 'fresh seed')}"
        best = trainings.run(left[0], final, seeds, _FINAL, title)
        selection = Selection(tuple(rounds), best, best.metric, plan.search_seconds)
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

    def run(self, genotype: Genotype, epochs: int, seeds: tuple[int, ...], place: str, title: str) -> TrainResult:
        """Train one candidate in the folder ``place``; test only the last one."""
        self.tell(title)
        home = None if self.folder is None else self.folder / place
        again = home is not None and self.resume and exists(home / "config.toml")
        return run_training(
            self.plan.with_changes(genotype, epochs, seeds, tested=place == _FINAL), data=self.data, out=home,
            resume=again, interruptible=self.interruptible, callbacks=self.callbacks,
        )  # fmt: skip


def _round(plan: SelectionPlan, number: int, epochs: int, left: tuple[Genotype, ...], trainings: _Trainings) -> Round:
    """Train all candidates that are left, and rank them."""
    found = []
    for genotype in left:
        place = plan.genotypes.index(genotype) + 1
        title = f"round {number} of {plan.rounds}: architecture {place}, {_count(epochs, 'epoch')}"
        result = trainings.run(genotype, epochs, (plan.training.config.seed,), f"round-{number}/{place}", title)
        value, metric = result.values("heldout")[0], result.metric
        found.append(Candidate(genotype, value, result.runs[0].seconds))
    sign = -1 if metric.higher_is_better else 1
    ranked = sorted(found, key=lambda one: math.inf if math.isnan(one.value) else sign * one.value)
    return Round(epochs, tuple(ranked), math.ceil(len(ranked) / 2))


def _count(number: int, what: str) -> str:
    """Return a number of things.

    >>> _count(1, "epoch"), _count(2, "epoch")
    ('1 epoch', '2 epochs')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
