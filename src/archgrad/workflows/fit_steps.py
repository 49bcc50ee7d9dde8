"""The steps of a fit: searches, selection, the network to compare with, and the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from archgrad.callbacks import Callback
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.loop.entry import run_search
from archgrad.spaces import RESNET, Genotype, SearchSpace
from archgrad.workflows.baseline import compare, equal_resnet
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import (
    REST,
    SEARCH_SHARE,
    FitPlan,
    network_space,
    shape_of,
    sized_space,
    training_epochs,
    trainings,
)
from archgrad.workflows.fit_result import FitResult
from archgrad.workflows.limits import Limits
from archgrad.workflows.select import Selection, SelectionPlan, run_selection
from archgrad.workflows.test_images import accuracy_interval, outputs_on
from archgrad.workflows.time_plan import epoch_seconds
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training_config import training_config
from archgrad.workflows.training_plan import TrainingPlan

__all__ = ["FitSteps"]

_MOST_BASELINE_EPOCHS = 1000
_MEASURING_SHARE = 0.05
"""The share of the baseline's time that measuring its epoch may take."""


@dataclass(frozen=True)
class FitSteps:
    """The steps of a fit, one after another; ``seconds`` is the time for all of them, from ``started`` on."""

    plan: FitPlan
    images: Data
    tests: Data
    seconds: float
    started: float
    limits: Limits
    seed: int
    options: dict[str, Any]
    folder: FitFolder
    tell: Callable[[str], None]
    interruptible: bool
    callbacks: tuple[Callback, ...]

    def announcement(self) -> str:
        """Say what will be done, and how long each part takes, unless the plan has all epochs."""
        plan, data = self.plan, self.images
        baseline = (REST - SEARCH_SHARE) / trainings(plan.searches)

        def about(share: float) -> str:
            return "" if plan.train_epochs else f", about {share * self.seconds / 60:.2g} minutes"

        images = "all images" if plan.search_limit is None else f"{plan.search_limit:,} images"
        size = "as large as the time allows" if plan.channels is None else f"with up to {plan.channels} channels"
        return (
            f"{len(data):,} images of {data.num_classes} classes at {data.image_size}×{data.image_size} pixels, "
            f"{len(self.tests):,} more to test{about(1.0)}: {plan.searches} search{'' if plan.searches == 1 else 'es'} "
            f"({plan.search_channels} channels, {plan.search_epochs} epochs, {images}{about(SEARCH_SHARE)}), selection "
            f"and training (a network {size}{about(REST - SEARCH_SHARE - baseline)}), and ResNet-20 of equal size to "
            f"compare with{about(baseline)}"
        )

    def search(self) -> list[Genotype]:
        """Search with several seeds, and return the different architectures."""
        found = []
        for number in range(self.plan.searches):
            self.tell(f"search {number + 1} of {self.plan.searches}")
            data = self.images
            if self.plan.search_limit is not None:
                data = data.limited(min(self.plan.search_limit, len(data)), self.seed)
            config = self.plan.search_config(self.seed + number, {**self.options, "data": data})
            result = run_search(config, images=data, **self._run(f"search-{number + 1}"))
            self.folder.spend("search", result.seconds)
            if not result.undecided:
                found.append(result.genotype)
        if not found:
            raise UserError("the searches have chosen no architecture; give a larger budget (--budget).")
        return list(dict.fromkeys(found))

    def select(self, genotypes: list[Genotype]) -> Selection:
        """Select by brief trainings, and train the best one."""
        space = self._network_space(genotypes)
        epochs = self.plan.train_epochs or self.folder.decided("train_epochs")
        config = training_config(space, genotypes[0], self.images, epochs=epochs or 1, seed=self.seed, **self.options)
        if epochs is None:
            epochs = training_epochs(config, self.images, len(genotypes), self._left)
            epochs = self.folder.decide("train_epochs", epochs)
        training = TrainingPlan(replace(config, epochs=epochs), "quick", (self.seed,), self.tests)
        self.tell(f"training {len(genotypes)} architecture(s) with {space.channels} channels for up to {epochs} epochs")
        selection = run_selection(
            SelectionPlan(training, tuple(genotypes), 1), data=self.images, tell=self.tell, **self._run("selection")
        )
        self.folder.spend("selection", sum(one.seconds for one in selection.rounds))
        self.folder.spend("training", sum(run.seconds for run in selection.final.runs))
        return selection

    def _network_space(self, genotypes: list[Genotype]) -> SearchSpace:
        """Choose the size of the network once: a measured latency may differ after a resume."""
        channels, cells = self.folder.decided("channels"), self.folder.decided("cells")
        if channels is None or cells is None:
            space = network_space(self.plan, genotypes, self.images, self._left, self.limits, self.options)
            channels = self.folder.decide("channels", space.channels)
            cells = self.folder.decide("cells", getattr(space, space.depth_knob))
        return sized_space(channels, cells)

    @property
    def _left(self) -> float:
        """The seconds that are left after the searches; not less than a small share of all.

        After a resume, the time of the earlier process counts by its parts.
        """
        parts = self.folder.seconds["search"] + self.folder.seconds["planning"]
        spent = max(time.monotonic() - self.started, parts)
        return max(REST * self.seconds - spent, 0.1 * self.seconds)

    def train_baseline(self, selection: Selection) -> TrainResult:
        """Train a residual network of equal size for the same time."""
        space = equal_resnet(selection.final.cost, shape_of(self.images))
        epochs = self.plan.baseline_epochs or self.folder.decided("baseline_epochs")
        config = training_config(space, RESNET, self.images, epochs=epochs or 1, seed=self.seed, **self.options)
        if epochs is None:
            taken = sum(run.seconds for run in selection.final.runs)
            epochs = round(taken / epoch_seconds(config, self.images, _MEASURING_SHARE * taken))
            epochs = self.folder.decide("baseline_epochs", min(max(epochs, 1), _MOST_BASELINE_EPOCHS))
        self.tell(f"training ResNet-20 with {space.channels} channels for {epochs} epochs, the same time")
        plan = TrainingPlan(replace(config, epochs=epochs), "quick", (self.seed + 1,), self.tests)
        result = run_training(plan, data=self.images, **self._run("resnet"))
        self.folder.spend("ResNet-20", result.runs[0].seconds)
        return result

    def _run(self, name: str) -> dict[str, Any]:
        """Return where a part runs, and how."""
        home: Path | None
        home, again = self.folder.part(name)
        interruptible = self.interruptible and home is not None
        return {"out": home, "resume": again, "interruptible": interruptible, "callbacks": self.callbacks}

    def test(self, selection: Selection, baseline: TrainResult) -> FitResult:
        """Test both networks on the same images."""
        every = torch.arange(len(self.tests))
        models = (selection.final.model, baseline.model)
        outputs, others = (
            outputs_on(model.network, self.tests, every, model.preprocessing.normalization) for model in models
        )
        correct = int((outputs.argmax(1) == self.tests.targets).sum())
        interval = accuracy_interval(correct, len(self.tests))
        return FitResult(
            replace(models[0], about={**models[0].about, "interval": list(interval)}), self.plan, selection, baseline,
            compare(outputs, others, self.tests.targets), interval, self.tests, outputs, self.folder.seconds,
            self.folder.path,
        )  # fmt: skip
