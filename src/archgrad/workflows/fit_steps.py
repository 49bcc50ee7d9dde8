"""The steps of a fit: search, select among whole trainings, train the best one, test it, compare it over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.config.search_config import SIZE_FIELDS
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.loop.entry import run_search
from archgrad.loop.estimate import choose_threads
from archgrad.loop.experiment import Experiment
from archgrad.loop.global_state import set_threads
from archgrad.loop.sizes import fit_sizes
from archgrad.spaces import Genotype
from archgrad.system.amounts import counted
from archgrad.system.warn_once import silenced
from archgrad.tasks import MetricInfo
from archgrad.tasks.classification import BALANCED
from archgrad.workflows.candidates import (
    BEST_CELL,
    SPACE,
    Candidate,
    network_candidates,
    pretrained,
    variants_of,
)
from archgrad.workflows.fit_report import FitResult, OverSeeds, SearchAdded
from archgrad.workflows.fit_trainings import TRAINED, FitTrainings
from archgrad.workflows.halving import Round, hold_round
from archgrad.workflows.length import Length, length_within
from archgrad.workflows.mirrored import flip_setting
from archgrad.workflows.pacing import (
    SEARCH,
    Clock,
    Schedule,
    balanced_size,
    schedule_rounds,
)
from archgrad.workflows.select import SelectionResult
from archgrad.workflows.test_images import measure, metric_interval, outputs_on, resampled
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training import Training, seeds_of

__all__ = ["FitSteps"]

METHOD = "gaea-simultaneous"
_FEWEST_STEPS = 500
"""A search of fewer steps is left out: what it chooses is chance."""
_TOO_SHORT = "the budget is too short for a search that means anything: its time goes into known networks"
_LONGER = (5, 10, 20, 30, 60, 120, 240, 480, 1440)
"""Budgets, in minutes, among which the shortest that has time for a search is named."""
_CLEARLY = 2.0
"""A variant must be better than the winner by so many standard errors of their difference."""
_BALANCED = MetricInfo(BALANCED, unit="%", best=100.0)
"""This metric ranks candidates, if the task has it, as it does where classes are unequal."""


class FitSteps(FitTrainings):
    """The steps of a fit."""

    def check(self) -> None:
        """Reject wrong settings, a wrong task and limits that no network keeps, before anything is written."""
        resolve(self._search_config(epochs=1, channels=8, cells=1))
        for data in (self.images.every, self.images.tests):
            self.given_task.check(data)
        self.given_task.suited_to(self.images.every)  # warns of unequal classes, once for all trainings
        with silenced("archgrad.tasks"):
            Experiment.of(resolve(self.first), self.images.train)  # tries the loss
        if self.start_from:
            pretrained(self.start_from, self.shape, self.limits)
        if self.limits:
            network_candidates([], self.shape, 1.0, self.limits, 1, self.plan.channels, self.plan.cells)

    def run(self, seeds: int | None) -> FitResult:
        """Search, select, train the best, test it, and compare over so many seeds if wanted."""
        with silenced("archgrad.tasks"):
            threads = self.options.get("threads") or self._threads()
            chosen = replace(self, options={**self.options, "threads": threads})
            chosen._announce()
            return replace(chosen, settings={**self.settings, **flip_setting(chosen)})._run(seeds)

    def _threads(self) -> int:
        """Choose the number of threads by time."""
        threads: int = self.decide("threads", lambda: choose_threads(resolve(self.first), self.images.train))
        set_threads(threads)
        return threads

    def _run(self, seeds: int | None) -> FitResult:
        found = self.search()
        networks, schedule = self.candidates(found)
        rounds, winner = self.select(networks, schedule)
        final, length = self.train(winner)
        result = self.test(winner, SelectionResult(tuple(rounds), final, final.metric), networks, bool(found))
        self.folder.save(spent=result.total)
        return (
            replace(result, over_seeds=self.compare(winner, result.added, networks, length, seeds)) if seeds else result
        )

    def _announce(self) -> None:
        every, tests, outputs = self.images.every, self.images.tests, self.shape["num_classes"]
        kind = f"of {every.num_classes} classes" if every.classes else f"with {counted(outputs, 'output')}"
        self.tell(
            f"{len(every):,} images {kind} at {every.image_size}×{every.image_size} pixels "
            f"({len(self.images.ranking):,} of them rank the candidates), {len(tests):,} more to test; "
            f"{counted(torch.get_num_threads(), 'thread')}; {self.clock}"
        )

    # --- search

    def search(self) -> list[Genotype]:
        """Search for a cell, and return it; nothing if the time is too short, or nothing is decided."""
        sizes = self.plan.search
        sizes = self.decide("search", self._search_sizes) if sizes is None else sizes
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
        result = run_search(config, images=data, **self.place("search", "config.toml"))
        self.folder.spend("search", result.seconds)
        told = "has decided nothing" if result.undecided else f"chose {result.genotype}"
        if not result.undecided and result.genotype == BEST_CELL:
            told += ", which is the best cell of the NAS-Bench-201 table, a candidate without any search"
        self.tell(f"the search {told}; {self.clock}")
        return [] if result.undecided else [result.genotype]

    def _search_config(self, **changes: Any) -> SearchConfig:
        """Return the configuration of a search; ``none`` is not among the operations."""
        own = {path: one for path, one in self.settings.items() if path.partition(".")[0] not in TRAINED}
        given: dict[str, Any] = {"data": self.images.train, "seed": self.seed, **self.options, **changes}
        return SearchConfig(
            space=SPACE, method=METHOD, settings={"space.exclude": "none", **own}, oracle="none", **given
        )  # fmt: skip

    def _search_sizes(self) -> dict[str, int | None]:
        """Choose the sizes of a search by time; nothing if too few steps are possible."""
        if self.plan.networks is None and self._rounds(self.clock).networks == 1:
            self.tell(_TOO_SHORT + self._longer())
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
        content = self.decide("candidates", lambda: self._choose(found))
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
        plan, every, timed, work = self.plan, self.images.every, self._rounds(self.clock), 1.0
        if plan.channels is None:
            seconds = self.clock.final if (plan.networks or timed.networks) > 1 else self.clock.left
            work = balanced_size(self.speed() * seconds, len(every))
        count, variants = plan.networks or timed.networks, timed.variants if plan.variants is None else plan.variants
        own = [pretrained(self.start_from, self.shape, self.limits)] if self.start_from else []
        if count > len(own):
            own += network_candidates(found, self.shape, work, self.limits, count - len(own), plan.channels, plan.cells)
        networks = own
        final = timed.final if count == timed.networks else self.clock.final
        return {"networks": [one.to_dict() for one in networks], "variants": variants, "final": final}

    def _rounds(self, clock: Clock) -> Schedule:
        """Return the rounds that a clock has time for, of networks that suit the last training."""
        every, rate = self.images.every, math.inf
        if self.plan.channels is None:
            rate = self.speed() / balanced_size(self.speed() * clock.final, len(every))
        return schedule_rounds(clock, rate, len(every))

    def _longer(self) -> str:
        """Name the shortest of a few budgets that has time for a search, if one has."""
        clocks = (Clock(60.0 * minutes, SEARCH * 60.0 * minutes) for minutes in _LONGER)
        enough = (one.seconds for one in clocks if one.seconds > self.clock.seconds and self._rounds(one).networks > 1)
        found = next(enough, None)
        return "" if found is None else f" (--budget {found / 60:g}m has time for one)"

    def select(self, networks: list[Candidate], schedule: Schedule) -> tuple[list[Round], Candidate]:
        """Halve the networks until one is left, and choose among its variants; return the rounds and the winner."""
        rounds = list[Round]()
        left, results = {str(one): one for one in networks}, dict[str, TrainResult]()
        while len(left) > 1:
            done, results = self._round(len(rounds), left, schedule, math.ceil(len(left) / 2), {})
            rounds.append(done)
            left = {name: left[name] for name in done.names}
        (winner,) = left.values()
        data = self.images_for(winner).every
        variants = variants_of(winner, data, self.settings, schedule.variants)
        if variants:
            left = {str(one): one for one in (winner, *variants)}
            known = {str(winner): results[str(winner)]} if rounds else {}
            done, results = self._round(len(rounds), left, schedule, 1, known)
            rounds.append(done)
            winner = left[self._clear_winner(done, str(winner), results)]
        return rounds, winner

    def _clear_winner(self, done: Round, before: str, results: Mapping[str, TrainResult]) -> str:
        """Return the best variant if it is clearly better than the winner before it, else that one.

        Brief trainings favor settings that learn fast, such as fewer augmentations, so a small lead tells nothing.
        """
        best, own = done.candidates[0], done.value_of(before)
        if own is None or best.name == before:
            return best.name
        error = math.hypot(*(self._error(results[name], done.metric) for name in (best.name, before)))
        if done.metric.gain(best.value, own) > _CLEARLY * error:
            return best.name
        self.tell(f"that is no clear lead over the {done.metric.show(own, 2)} of {before}, which stays")
        return before

    def _error(self, result: TrainResult, metric: MetricInfo) -> float:
        """Return the standard error of the metric that ranks, over the held-out images."""
        task, outputs = self.task, result.runs[0].outputs
        assert outputs is not None  # noqa: S101 - for the type checker
        known = task.all_metrics.get(metric.name, task.main_metric)
        return float(resampled(known, outputs, self.images.ranking.targets).std())

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
        lengths = self.decide(f"round-{number + 1}", lambda: self._lengths(number, new, schedule, known))
        planned = {str(one): Length(*length) for one, length in zip(new, lengths, strict=True)}
        trainings = {}
        for name, length in planned.items():
            images = self.images_for(left[name])
            trainings[name] = self.training(left[name], images.train, length, test=images.ranking)

        def train(name: str, training: Training) -> TrainResult:
            length, place = planned[name], f"round-{number + 1}/{list(left).index(name) + 1}"
            self.tell(
                f"round {number + 1} of {total}: {name}, {counted(length.epochs, 'epoch')} of {length.images:,} "
                f"images; {self.clock}"
            )
            result = self.carry_out(left[name], training, length, place)
            self.folder.spend("selection", result.runs[0].seconds)
            return result

        done, results = hold_round(trainings, train, kept, "test", _BALANCED, known)
        best, shown = done.candidates[0], done.metric.show(done.candidates[0].value, 2)
        self.tell(f"round {number + 1} of {total}: {shown} on the held-out images by {best.name}")
        return done, results

    def _lengths(
        self, number: int, new: Sequence[Candidate], schedule: Schedule, known: Mapping[str, TrainResult]
    ) -> list[list[int]]:
        """Return epochs and images of the trainings of a round, which take the same time, as ``known`` ones did."""
        whole, classes = len(self.images.train), self.images.every.num_classes
        if self.plan.train_epochs:
            halvings = max(len(schedule.weights()) - number, 1)
            return [[max(self.plan.train_epochs >> halvings, 1), whole] for _ in new]
        rates = [self.rate(one) for one in new]
        seconds = schedule.seconds(number, self.clock.until(schedule.final))  # after the measurements
        seconds = max((one.runs[0].seconds for one in known.values()), default=seconds)
        found = [length_within(seconds, rate, whole, classes) for rate in rates]
        return [[one.epochs, one.images] for one in found]

    # --- training

    def train(self, winner: Candidate) -> tuple[TrainResult, Length]:
        """Train the winner on all images but the test images, for the time that is left."""
        every = self.images_for(winner).every

        def choose() -> list[int]:
            if self.plan.train_epochs:
                return [self.plan.train_epochs, len(every)]
            found = self._length_left(winner, every)
            if self.pilot(winner, every, found):
                found = self._length_left(winner, every)
            return [found.epochs, found.images]

        length = Length(*self.decide("final", choose))
        self.tell(
            f"training the winner, {winner}: {counted(length.epochs, 'epoch')} of {length.images:,} images; "
            f"{self.clock}"
        )
        training = self.training(winner, every, length, seed=self.seed + 1)
        result = self.carry_out(winner, training, length, "final")
        self.folder.spend("training", result.runs[0].seconds)
        return result, length

    def _length_left(self, winner: Candidate, every: Data) -> Length:
        """Return the length of the last training, by the speed of the winner and the time that is left."""
        rate = self.rate(winner)
        seconds = self.clock.left - len(self.images.tests) / (3 * rate)  # a test is a third of a step
        return length_within(max(seconds, 0.1), rate, len(every), every.num_classes)

    # --- test

    def test(
        self, winner: Candidate, selection: SelectionResult, networks: Sequence[Candidate], searched: bool
    ) -> FitResult:
        """Test the model."""
        (run,), tests, task = selection.final.runs, self.images_for(winner).tests, self.task
        outputs = outputs_on(run.model.network, tests, torch.arange(len(tests)), run.model.preprocessing.normalization)
        interval = metric_interval(task.main_metric, outputs, tests.targets)
        found = measure(task, outputs, tests.targets)
        about = {**run.model.about, "test": found, "interval": list(interval), "metric": task.main_metric.name}
        model = replace(run.model, about=about)
        final = replace(selection.final, runs=(replace(run, model=model, test=found),))
        added = SearchAdded.of(selection.rounds, networks, winner, searched)
        return FitResult(
            model, winner, replace(selection, final=final), added, interval, tests, outputs,
            self.folder.seconds, self.folder.total(self.clock), self.folder.path,
            train_targets=self.images.every.targets, task=task,
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
        seconds = length.seen / self.rate(winner)
        every = self.images.every

        def choose() -> list[int]:
            found = length_within(seconds, self.rate(rival), len(every), every.num_classes)
            epochs = self.plan.train_epochs or found.epochs
            return [epochs, found.images]

        lengths = (length, Length(*self.decide("compare", choose)))
        values = list[tuple[float, ...]]()
        for name, one, own in zip(("winner", "rival"), (winner, rival), lengths, strict=True):
            self.tell(f"comparing over {counted(count, 'seed')}: {one}, {counted(own.epochs, 'epoch')}")
            images, seeds = self.images_for(one), seeds_of(count, self.seed + 2)
            training = replace(self.training(one, images.every, own, test=images.tests), seeds=seeds)
            result = self.carry_out(one, training, own, f"compare/{name}")
            self.folder.spend("comparison", sum(run.seconds for run in result.runs))
            values.append(tuple(result.values("test")))
        return OverSeeds(str(winner), str(rival), values[0], values[1], result.metric)
