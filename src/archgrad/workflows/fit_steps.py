"""The steps of a fit: search, select among whole trainings, train the best one, test it, compare it over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal

import torch

from archgrad.callbacks import Callback
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve, task_of
from archgrad.config.search_config import SIZE_FIELDS
from archgrad.distributed.processes import from_first
from archgrad.errors import UserError
from archgrad.loop.entry import run_search
from archgrad.loop.estimate import choose_threads
from archgrad.loop.global_state import set_threads
from archgrad.loop.sizes import fit_sizes
from archgrad.spaces import Genotype
from archgrad.system.amounts import counted
from archgrad.system.warn_once import silenced
from archgrad.tasks import BaseTask
from archgrad.workflows.candidates import (
    BEST_CELL,
    SPACE,
    Candidate,
    network_candidates,
    pretrained,
    reference,
    shape_of,
    variants_of,
)
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import FitPlan, Images
from archgrad.workflows.fit_report import FitResult, OverSeeds, SearchAdded
from archgrad.workflows.halving import Round, hold_round
from archgrad.workflows.limits import Limits, cost_of
from archgrad.workflows.mirrored import mirror_statistic
from archgrad.workflows.pacing import (
    SEARCH,
    Clock,
    Length,
    Schedule,
    balanced_size,
    length_within,
    mirror_length,
    schedule_rounds,
)
from archgrad.workflows.select import SelectionResult
from archgrad.workflows.test_images import accuracy_interval, measure, outputs_on
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training import NO_TEST, PLAN, Training, epoch_seconds, seeds_of

__all__ = ["FitSteps"]

METHOD = "gaea-simultaneous"
_TRAINED, _BOTH = ("weights",), ("task", "augmentation")
"""Parts whose settings are for trainings only, and for trainings and the search."""
_FEWEST_STEPS = 500
"""A search of fewer steps is left out: what it chooses is chance."""
_TOO_SHORT = "the budget is too short for a search that means anything: its time goes into known networks"
_FASTER = 0.85
"""Training in bfloat16 must take at most this share of the time of 32 bits to be chosen."""
_CLEARLY = 2.0
"""A variant must be better than the winner by so many standard errors of their difference."""
_FLIP, _DIFFERENT = "augmentation.flip", 3.0
"""Images are not mirrored if mirrored ones fit their classes worse by so many standard errors."""
_MEASURING = 0.01
"""The share of the time that one measurement may take after its first steps."""
_BALANCED = "balanced_accuracy"
"""This metric ranks candidates, if the task has it, as it does where classes are unequal."""


@dataclass(frozen=True)
class FitSteps:
    """A fit that runs: its images, its clock and its folder, and how fast its networks have trained so far.

    ``precision`` is that of the trainings, if the options do not give one; it is chosen by time. ``start_from`` is the
    folder of a trained model, which is the first candidate.
    """

    plan: FitPlan
    images: Images
    clock: Clock
    limits: Limits
    seed: int
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    folder: FitFolder
    tell: Callable[[str], None]
    interruptible: bool
    callbacks: Sequence[Callback]
    precision: str = ""
    start_from: str | None = None
    rates: dict[str, float] = field(default_factory=dict)
    sized: dict[int, Images] = field(default_factory=dict)

    def check(self) -> None:
        """Reject wrong settings and limits that no network keeps, before anything is written."""
        if self.start_from:
            pretrained(self.start_from, self.images.every, self.limits)
        if self.limits:
            network_candidates([], self.images.every, 1.0, self.limits, 1, self.plan.channels, self.plan.cells)
        resolve(self._first)
        resolve(self._search_config(epochs=1, channels=8, cells=1))

    def run(self, seeds: int | None) -> FitResult:
        """Search, select, train the best, test it, and compare over so many seeds if wanted."""
        task_of(self._first).suited_to(self.images.every)  # warns of unequal classes, once for all trainings
        with silenced("archgrad.tasks"):
            chosen = self._chosen()
            chosen._announce()
            return replace(chosen, settings={**self.settings, **chosen.flips()})._run(seeds)

    def _chosen(self) -> FitSteps:
        """Choose threads and precision by time, where they are not given."""
        if "threads" not in self.options:
            threads = self._decide("threads", lambda: choose_threads(resolve(self._first), self.images.train))
            set_threads(threads)
            return replace(self, options={**self.options, "threads": threads})._chosen()
        if "precision" not in self.options:
            return replace(self, precision=self._decide("precision", self._choose_precision))
        return self

    def _run(self, seeds: int | None) -> FitResult:
        found = self.search()
        networks, schedule = self.candidates(found)
        rounds, winner = self.select(networks, schedule)
        final, length = self.train(winner)
        result = self.test(winner, SelectionResult(tuple(rounds), final, final.metric), networks, bool(found))
        self.folder.save(spent=self.clock.spent)
        return (
            replace(result, over_seeds=self.compare(winner, result.added, networks, length, seeds)) if seeds else result
        )

    def _announce(self) -> None:
        every, tests = self.images.every, self.images.tests
        self.tell(
            f"{len(every):,} images of {every.num_classes} classes at {every.image_size}×{every.image_size} pixels "
            f"({len(self.images.ranking):,} of them rank the candidates), {len(tests):,} more to test; "
            f"{counted(torch.get_num_threads(), 'thread')}"
            f"{', training in bfloat16, which is faster here' if self.precision == 'bf16' else ''}; {self.clock}"
        )

    def _decide(self, name: str, choose: Callable[[], Any]) -> Any:
        return self.folder.decide(name, choose, self.clock)

    @property
    def _first(self) -> SearchConfig:
        """The training of the network that is measured first."""
        data = self.images.train
        return self._training(reference(data), data, Length(1, len(data))).config

    def _choose_precision(self) -> str:
        """Return bf16 if this machine trains clearly faster with it, else 32."""

        def seconds(precision: Literal["32", "bf16"]) -> float:
            return epoch_seconds(
                replace(self._first, precision=precision), self.images.train, _MEASURING * self.clock.seconds
            )

        try:
            lower, usual = seconds("bf16"), seconds("32")  # all processes measure together
        except UserError:  # PyTorch cannot compute it on this device
            return "32"
        return "bf16" if lower < _FASTER * usual else "32"

    @property
    def _task(self) -> BaseTask:
        return task_of(self._first).suited_to(self.images.train)

    # --- mirrored images

    def flips(self) -> dict[str, bool]:
        """Tell whether to mirror images, where the data would and the user has not said: by a test, if there is time.

        A ResNet trains without mirrored images, and held-out images tell whether it takes mirrored ones alike. It is as
        wide as in the last training, whose speed is known then.
        """
        data = self.images.train
        if _FLIP in self.settings or not data.augmentation.flip or self.plan.train_epochs:
            return {}
        one, *length = self._decide("mirror", self._mirror_test)
        network = Candidate.of(one)
        if not length:
            return {}
        self.tell(f"testing whether mirrored images keep their meaning; {self.clock}")
        training = self._training(replace(network, settings={_FLIP: False}), data, Length(*length))
        result = self._train(network, training, Length(*length), "mirror")
        self.folder.spend("flips", result.runs[0].seconds)
        worse = mirror_statistic(result.model, self.images.ranking)
        same = worse < _DIFFERENT
        self.tell(
            f"mirrored images fit their classes {'as well as others' if same else 'worse'} ({worse:+.1f} standard "
            f"errors), so trainings {'use' if same else 'do without'} them; {self.clock}"
        )
        return {_FLIP: same}

    def _mirror_test(self) -> list[Any]:
        """Return the network of the test, its epochs and images; the network alone if there is no time for it."""
        data, plan = self.images.train, self.plan
        work = balanced_size(self._speed() * self.clock.left, len(self.images.every)) if plan.channels is None else 1.0
        (network,) = network_candidates([], data, work, self.limits, 1, plan.channels, plan.cells)
        found = mirror_length(self.clock, self._rate(network), len(data), data.num_classes)
        return [network.to_dict(), *([] if found is None else [found.epochs, found.images])]

    # --- search

    def search(self) -> list[Genotype]:
        """Search for a cell, and return it; nothing if the time is too short, or nothing is decided."""
        sizes = self.plan.search
        sizes = self._decide("search", self._search_sizes) if sizes is None else sizes
        if not sizes:
            return []
        data, sizes = self.images.train, {name: one for name, one in sizes.items() if one is not None}
        limit, size = sizes.pop("limit", len(data)), sizes.pop("search_size", data.image_size)
        data = data.limited(limit, self.seed) if limit < len(data) else data
        data = data if size == data.image_size else data.resized(size, self.options.get("resize", "crop"))
        self.tell(
            f"searching for a cell: {counted(sizes['epochs'], 'epoch')} of {len(data):,} images, "
            f"{sizes['channels']} channels; {self.clock}"
        )
        config = self._search_config(data=data, **sizes)
        result = run_search(config, images=data, **self._place("search", "config.toml"))
        self.folder.spend("search", result.seconds)
        told = "has decided nothing" if result.undecided else f"chose {result.genotype}"
        if not result.undecided and result.genotype == BEST_CELL:
            told += ", which is the best cell of the NAS-Bench-201 table, a candidate without any search"
        self.tell(f"the search {told}; {self.clock}")
        return [] if result.undecided else [result.genotype]

    def _search_config(self, **changes: Any) -> SearchConfig:
        """Return the configuration of a search; ``none`` is not among the operations."""
        own = {path: one for path, one in self.settings.items() if path.partition(".")[0] not in _TRAINED}
        given: dict[str, Any] = {"data": self.images.train, "seed": self.seed, **self.options, **changes}
        return SearchConfig(
            space=SPACE, method=METHOD, settings={"space.exclude": "none", **own}, oracle="none", **given
        )  # fmt: skip

    def _search_sizes(self) -> dict[str, int | None]:
        """Choose the sizes of a search by time; nothing if too few steps are possible."""
        if self.plan.networks is None and self._rounds().networks == 1:
            self.tell(_TOO_SHORT)
            return {}
        self.tell("measuring a few steps of a search")
        minutes = (SEARCH * self.clock.seconds - self.clock.spent) / 60
        try:
            chosen = fit_sizes(self._search_config(time_limit=max(minutes, 0.01)), self.images.train)
            config, enough = chosen.config, chosen.steps >= _FEWEST_STEPS
        except UserError:
            enough = False
        if not enough:
            self.tell(_TOO_SHORT)
            return {}
        return {name: getattr(config, name) for name in SIZE_FIELDS}

    # --- selection

    def candidates(self, found: Sequence[Genotype]) -> tuple[list[Candidate], Schedule]:
        """Return the networks of the first round, and the rounds."""
        content = self._decide("candidates", lambda: self._choose(found))
        try:
            networks = [Candidate.of(one) for one in content["networks"]]
            schedule = Schedule(len(networks), int(content["variants"]), float(content["final"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.folder.path} has wrong candidates ({error}); start a new fit.") from error
        for one in networks:
            self.tell(f"candidate: {one}")
        return networks, schedule

    def _choose(self, found: Sequence[Genotype]) -> dict[str, Any]:
        """Choose the networks and the rounds by the speed of this machine and the time that is left."""
        plan, every, timed, work = self.plan, self.images.every, self._rounds(), 1.0
        if plan.channels is None:
            seconds = self.clock.final if (plan.networks or timed.networks) > 1 else self.clock.left
            work = balanced_size(self._speed() * seconds, len(every))
        count, variants = plan.networks or timed.networks, timed.variants if plan.variants is None else plan.variants
        own = [pretrained(self.start_from, every, self.limits)] if self.start_from else []
        if count > len(own):
            own += network_candidates(found, every, work, self.limits, count - len(own), plan.channels, plan.cells)
        networks = own
        final = timed.final if count == timed.networks else self.clock.final
        return {"networks": [one.to_dict() for one in networks], "variants": variants, "final": final}

    def _speed(self) -> float:
        """Return how many multiply-adds a second this machine trains."""
        first = reference(self.images.every)
        return self._rate(first) * cost_of(first.sized, first.parsed, shape_of(self.images.every)).multiply_adds

    def _rounds(self) -> Schedule:
        """Return the rounds that there is time for, of networks that suit the last training."""
        every, rate = self.images.every, math.inf
        if self.plan.channels is None:
            rate = self._speed() / balanced_size(self._speed() * self.clock.final, len(every))
        return schedule_rounds(self.clock, rate, len(every))

    def select(self, networks: list[Candidate], schedule: Schedule) -> tuple[list[Round], Candidate]:
        """Halve the networks until one is left, and choose among its variants; return the rounds and the winner."""
        rounds = list[Round]()
        left, results = {str(one): one for one in networks}, dict[str, TrainResult]()
        while len(left) > 1:
            done, results = self._round(len(rounds), left, schedule, math.ceil(len(left) / 2), {})
            rounds.append(done)
            left = {name: left[name] for name in done.names}
        (winner,) = left.values()
        data = self._images(winner).every
        variants = variants_of(winner, data, self.settings, schedule.variants)
        if variants:
            left = {str(one): one for one in (winner, *variants)}
            done, _ = self._round(len(rounds), left, schedule, 1, {str(winner): results[str(winner)]} if rounds else {})
            rounds.append(done)
            winner = left[self._clear_winner(done, str(winner))]
        return rounds, winner

    def _clear_winner(self, done: Round, before: str) -> str:
        """Return the best variant if it is clearly better than the winner before it, else that one.

        Brief trainings favor settings that learn fast, such as fewer augmentations, so a small lead tells nothing.
        """
        best, own = done.candidates[0], done.value_of(before)
        if own is None or best.name == before:
            return best.name
        shares = (min(max(value / 100, 0.0), 1.0) for value in (best.value, own))
        error = 100 * math.sqrt(sum(share * (1 - share) for share in shares) / len(self.images.ranking))
        if best.value - own > _CLEARLY * error:
            return best.name
        self.tell(f"that is no clear lead over the {own:.2f} % of {before}, which stays")
        return before

    def _round(
        self,
        number: int,
        left: Mapping[str, Candidate],
        schedule: Schedule,
        kept: int,
        known: Mapping[str, TrainResult],
    ) -> tuple[Round, dict[str, TrainResult]]:
        """Train each candidate for the same time, and rank them; results that are ``known`` stay."""
        total = len(schedule.weights())
        new = [one for name, one in left.items() if name not in known]
        lengths = self._decide(f"round-{number + 1}", lambda: self._lengths(number, new, schedule, known))
        planned = {str(one): Length(*length) for one, length in zip(new, lengths, strict=True)}
        trainings = {
            name: self._training(left[name], self._images(left[name]).train, one, test=self._images(left[name]).ranking)
            for name, one in planned.items()
        }

        def train(name: str, training: Training) -> TrainResult:
            length, place = planned[name], f"round-{number + 1}/{list(left).index(name) + 1}"
            self.tell(
                f"round {number + 1} of {total}: {name}, {counted(length.epochs, 'epoch')} of {length.images:,} "
                f"images; {self.clock}"
            )
            result = self._train(left[name], training, length, place)
            self.folder.spend("selection", result.runs[0].seconds)
            return result

        done, results = hold_round(trainings, train, kept, "test", _BALANCED, known)
        best = done.candidates[0]
        self.tell(f"round {number + 1} of {total}: {best.value:.2f} % on the held-out images by {best.name}")
        return done, results

    def _lengths(
        self, number: int, new: Sequence[Candidate], schedule: Schedule, known: Mapping[str, TrainResult]
    ) -> list[list[int]]:
        """Return epochs and images of the trainings of a round, which take the same time, as ``known`` ones did."""
        whole, classes = len(self.images.train), self.images.every.num_classes
        if self.plan.train_epochs:
            halvings = max(len(schedule.weights()) - number, 1)
            return [[max(self.plan.train_epochs >> halvings, 1), whole] for _ in new]
        rates = [self._rate(one) for one in new]
        seconds = schedule.seconds(number, self.clock.until(schedule.final))  # after the measurements
        seconds = max((one.runs[0].seconds for one in known.values()), default=seconds)
        found = [length_within(seconds, rate, whole, classes) for rate in rates]
        return [[one.epochs, one.images] for one in found]

    def _rate(self, candidate: Candidate) -> float:
        """Return how many images per second a network trains: in its last training, or in a few measured steps."""
        if candidate.network not in self.rates:
            data = self._images(candidate).train
            training = self._training(candidate, data, Length(1, len(data)))
            seconds = epoch_seconds(training.config, data, _MEASURING * self.clock.seconds)
            self.rates[candidate.network] = from_first(lambda: len(data) / seconds)
        return self.rates[candidate.network]

    # --- training

    def train(self, winner: Candidate) -> tuple[TrainResult, Length]:
        """Train the winner on all images but the test images, for the time that is left."""
        every = self._images(winner).every

        def choose() -> list[int]:
            if self.plan.train_epochs:
                return [self.plan.train_epochs, len(every)]
            seconds = self.clock.left - len(self.images.tests) / (3 * self._rate(winner))  # a test is a third of a step
            found = length_within(max(seconds, 0.1), self._rate(winner), len(every), every.num_classes)
            return [found.epochs, found.images]

        length = Length(*self._decide("final", choose))
        self.tell(
            f"training the winner, {winner}: {counted(length.epochs, 'epoch')} of {length.images:,} images; "
            f"{self.clock}"
        )
        training = self._training(winner, every, length, seed=self.seed + 1)
        result = self._train(winner, training, length, "final")
        self.folder.spend("training", result.runs[0].seconds)
        return result, length

    def _training(self, one: Candidate, data: Any, length: Length, test: Any = NO_TEST, **changes: Any) -> Training:
        """Describe a training of a candidate; the images that it is tested on rank it."""
        own = {path: value for path, value in self.settings.items() if path.partition(".")[0] in (*_TRAINED, *_BOTH)}
        limit = {"limit": length.images} if length.images < len(data) else {}
        options = {
            "precision": self.precision or "32",
            **self.options,
            "seed": self.seed,
            "test": test,
            "settings": own,
            **limit,
            **changes,
        }
        return one.training(data, length, options)

    def _train(self, candidate: Candidate, training: Training, length: Length, place: str) -> TrainResult:
        result = run_training(training, **self._place(place))
        epochs = [record["seconds"] for run in result.runs for record in run.history]
        self.rates[candidate.network] = length.images / max(median(epochs), 1e-6)
        return result

    def _images(self, candidate: Candidate) -> Images:
        """Return the images at the size that a candidate takes."""
        size = candidate.image_size
        if size not in self.sized:
            self.sized[size] = self.images.resized(size, self.options.get("resize", "crop"))
        return self.sized[size]

    def _place(self, name: str, marker: str = PLAN) -> dict[str, Any]:
        """Return where a part runs, and how."""
        home, begun = self.folder.part(name, marker)
        interruptible = self.interruptible and home is not None
        return {"out": home, "resume": begun, "interruptible": interruptible, "callbacks": self.callbacks}

    # --- test

    def test(
        self, winner: Candidate, selection: SelectionResult, networks: Sequence[Candidate], searched: bool
    ) -> FitResult:
        """Test the model."""
        (run,), tests = selection.final.runs, self._images(winner).tests
        outputs = outputs_on(run.model.network, tests, torch.arange(len(tests)), run.model.preprocessing.normalization)
        interval = accuracy_interval(int((outputs.argmax(1) == tests.targets).sum()), len(tests))
        found = measure(self._task, outputs, tests.targets)
        model = replace(run.model, about={**run.model.about, "test": found, "interval": list(interval)})
        final = replace(selection.final, runs=(replace(run, model=model, test=found),))
        added = SearchAdded.of(selection.rounds, networks, winner, searched)
        return FitResult(
            model, winner, replace(selection, final=final), added, interval, tests, outputs,
            self.folder.seconds, self.clock.spent, self.folder.path,
            train_targets=self.images.every.targets,
        )  # fmt: skip

    def compare(
        self, winner: Candidate, added: SearchAdded, networks: Sequence[Candidate], length: Length, count: int
    ) -> OverSeeds | None:
        """Train the winner and its best rival of the other kind with so many seeds, each for the same time."""
        rival = next((one for one in networks if str(one) == added.rival), None)
        if rival is None:
            self.tell("there is no other network to compare with")
            return None
        rival = replace(rival, settings=winner.settings)
        seconds = length.seen / self._rate(winner)
        every = self.images.every

        def choose() -> list[int]:
            found = length_within(seconds, self._rate(rival), len(every), every.num_classes)
            epochs = self.plan.train_epochs or found.epochs
            return [epochs, found.images]

        lengths = (length, Length(*self._decide("compare", choose)))
        accuracies = []
        for name, one, own in zip(("winner", "rival"), (winner, rival), lengths, strict=True):
            self.tell(f"comparing over {counted(count, 'seed')}: {one}, {counted(own.epochs, 'epoch')}")
            images, seeds = self._images(one), seeds_of(count, self.seed + 2)
            training = replace(self._training(one, images.every, own, test=images.tests), seeds=seeds)
            result = self._train(one, training, own, f"compare/{name}")
            self.folder.spend("comparison", sum(run.seconds for run in result.runs))
            accuracies.append(tuple(result.values("test")))
        return OverSeeds(str(winner), str(rival), *accuracies)
