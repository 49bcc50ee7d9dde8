"""Choose among architectures by trainings, and train the best one with fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.callbacks.progress import Display
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
from archgrad.workflows.folders import REPORT, read_json, run_alone, to_json
from archgrad.workflows.halving import Round, hold_round, round_sizes
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training import Training, as_genotype, is_begun, seeds_of

__all__ = [
    "HALVING",
    "PROTOCOLS",
    "SelectionPlan",
    "SelectionProtocol",
    "SelectionResult",
    "run_selection",
    "select",
]

SELECTION, CANDIDATES = "selection.json", "candidates.json"
_CONTENT = ("genotypes", "seeds", "search_seconds", "protocol", "searches")
_FINAL = "final"
"""The folder of the last training."""


@dataclass(frozen=True)
class SelectionProtocol:
    """Candidates train in rounds, and held-out images rank them.

    With ``halves`` the better half goes on to the next round, whose trainings are twice as long (successive halving,
    Jamieson & Talwalkar, 2016). Otherwise one round trains all of them in full. Then the best one trains with
    ``seeds`` ``fresh`` seeds, with ``on_all`` on all images, and is tested. Without ``fresh`` there is no further
    training: the round has ``seeds`` trainings of each candidate, and each is tested.

    ``searches`` is the published number of candidates, None where nothing is published. ``note`` says what the paper
    did otherwise, or does not say.
    """

    about: str
    note: str = ""
    searches: int | None = None
    seeds: int = 3
    halves: bool = False
    fresh: bool = True
    on_all: bool = False

    def departures(self, searches: int, seeds: int, preset: str) -> tuple[str, ...]:
        """Return what differs from the published numbers and trainings.

        >>> PROTOCOLS["gaea"].departures(2, 10, "quick")
        ('searches: 2 instead of 5', 'preset: quick instead of one of a paper')
        """
        if self.searches is None:
            return ()
        found = (("searches", searches, self.searches), ("seeds", seeds, self.seeds))
        counts = [f"{what}: {own} instead of {published}" for what, own, published in found if own != published]
        return (*counts, *(["preset: quick instead of one of a paper"] if preset == "quick" else []))


HALVING = "halving"
PROTOCOLS: Mapping[str, SelectionProtocol] = {
    HALVING: SelectionProtocol(
        "brief trainings that drop the worse half, and the best one with fresh seeds", halves=True
    ),
    "gaea": SelectionProtocol(
        "each of 5 searches trained once in full, and the best one with 10 fresh seeds on all images (GAEA, C.1)",
        "held-out images chose the best one; GAEA does not say which images did",
        searches=5, seeds=10, on_all=True,
    ),
    "amended": SelectionProtocol(
        "each of 5 searches trained 3 times in full (Amended-DARTS, A.4)",
        "held-out images, which trained nothing, chose one; Amended-DARTS chooses none, and reports the lowest and the "
        "highest test error",
        searches=5, seeds=3, fresh=False,
    ),
}  # fmt: skip
"""The protocols by name."""


@dataclass(frozen=True)
class SelectionPlan:
    """What to select from: trainings are as ``training`` says, for each of the ``genotypes``.

    The last trainings have the ``seeds`` after the first one, which all rounds share. ``search_seconds`` is what the
    searches took, by their run directories, where these are known. Several ``searches`` may have found one genotype.
    """

    training: Training
    genotypes: tuple[Genotype, ...]
    seeds: int = 3
    search_seconds: Mapping[str, float] = field(default_factory=dict)
    protocol: str = HALVING
    searches: int | None = None

    @property
    def rules(self) -> SelectionProtocol:
        """The protocol."""
        return look_up("protocol", self.protocol, PROTOCOLS)

    @property
    def departures(self) -> tuple[str, ...]:
        """What differs from the published protocol."""
        return self.rules.departures(self.searches or len(self.genotypes), self.seeds, self.training.preset)

    @property
    def names(self) -> dict[str, Genotype]:
        """The genotypes by their number, which names their folders."""
        return {str(number): one for number, one in enumerate(self.genotypes, 1)}

    @property
    def rounds(self) -> int:
        """The number of rounds; one candidate needs none before its training with fresh seeds."""
        if self.rules.halves:
            return len(round_sizes(len(self.genotypes)))
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

    def write(self, folder: Path, data: Data) -> None:
        """Begin the run directory of a selection."""
        content = {name: getattr(self, name) for name in _CONTENT} | {"genotypes": list(map(str, self.genotypes))}
        self.training.write(folder, data, "selection", {CANDIDATES: to_json(content)})

    @classmethod
    def read(cls, folder: Path, given: Mapping[str, Any]) -> SelectionPlan:
        """Read the plan of a begun selection; ``given`` are the arguments of ``Training.read``."""
        path = folder / CANDIDATES
        content = read_json(path, "a selection", _CONTENT)
        try:
            look_up("protocol", content["protocol"], PROTOCOLS)
            check_value("seeds", content["seeds"], Count)
            check_value("searches", content["searches"], Count | None)
            genotypes = tuple(map(Genotype.parse, content["genotypes"]))
            seconds = {str(run): float(one) for run, one in content["search_seconds"].items()}
        except (UserError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{path} has a wrong list of candidates ({error}); start a new selection.") from error
        if not genotypes:
            raise UserError(f"{path} has no genotypes; start a new selection.")
        return cls(
            Training.read(folder, given), genotypes, content["seeds"], seconds, content["protocol"],
            content["searches"],
        )  # fmt: skip


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
    progress: bool | None = None,
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
    with take_turns(), closing(Display(progress, shows_cell=False)) as display:
        given = [as_genotype(one) for one in genotypes]
        if not given:
            raise UserError("there are no architectures to select from; give at least one.")
        trainings = [Training.of(space, one, as_data(data), preset=preset, test=test, **options) for one in given]
        training = replace(trainings[0], trains_on_all=False)
        found = tuple(dict.fromkeys(given))
        plan = SelectionPlan(training, found, seeds or rules.seeds, protocol=protocol, searches=len(given))
        watching = (*callbacks, *display.callbacks)
        return run_selection(plan, out=out, interruptible=interruptible, callbacks=watching, tell=display.tell)


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

        def train(training: Training, place: str, title: str) -> TrainResult:
            tell(title)
            home = None if folder is None else folder / place
            return run_training(
                training, data=data, out=home, resume=resume and is_begun(home), interruptible=interruptible,
                callbacks=callbacks,
            )  # fmt: skip

        result = _selected(plan, train)
        if folder is not None and processes().rank == 0:
            write_text(folder / SELECTION, to_json(result.to_dict()))
            write_text(folder / REPORT, to_html(page_of_training(folder)))
        return result


def _selected(plan: SelectionPlan, train: Callable[[Training, str, str], TrainResult]) -> SelectionResult:
    """Train in rounds, and then the best one with fresh seeds, if the protocol says so."""
    final, first = plan.training.epochs, plan.training.config.seed
    left, rounds, results = list(plan.names), list[Round](), dict[str, TrainResult]()
    for number in range(1, plan.rounds + 1):
        done, results = _round(plan, number, left, train)
        rounds.append(done)
        left = done.names
    best = left[0]
    if plan.rules.fresh:
        seeds, held_out = seeds_of(plan.seeds, first + 1), 0.0 if plan.rules.on_all else None
        training = plan.training.with_changes(plan.names[best], final, seeds, tested=True, held_out=held_out)
        results[best] = train(training, _FINAL, f"training the best one with {counted(len(seeds), 'fresh seed')}")
    told = (plan.search_seconds, plan.protocol, plan.departures)
    return SelectionResult(tuple(rounds), results[best], results[best].metric, *told)


def _round(
    plan: SelectionPlan, number: int, left: list[str], train: Callable[[Training, str, str], TrainResult]
) -> tuple[Round, dict[str, TrainResult]]:
    """Train all candidates that are left; in a round without another one after it, with all seeds."""
    last, epochs = not plan.rules.fresh, plan.epochs_of(number, plan.training.epochs)
    seeds = seeds_of(plan.seeds if last else 1, plan.training.config.seed)
    length = counted(epochs, "epoch") + (f", {counted(len(seeds), 'seed')}" if last else "")

    def train_one(name: str, training: Training) -> TrainResult:
        title = f"round {number} of {plan.rounds}: architecture {name}, {length}"
        return train(training, f"round-{number}/{name}", title)

    entered = {
        name: plan.training.with_changes(plan.names[name], epochs, seeds, tested=last, held_out=None) for name in left
    }
    return hold_round(entered, train_one, math.ceil(len(left) / 2) if plan.rules.halves else 1)
