"""The whole way from images to a model: search, select, train, test, and compare with a residual network."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.amounts import read_amount, read_duration, read_seconds
from archgrad.callbacks import Callback
from archgrad.config import SearchConfig
from archgrad.data import Data, as_data
from archgrad.data import split as split_data
from archgrad.distributed.processes import joined
from archgrad.errors import UserError
from archgrad.files import as_path
from archgrad.loop.entry import run_search
from archgrad.loop.global_state import take_turns
from archgrad.models import Model
from archgrad.spaces import RESNET, Genotype, named_space
from archgrad.workflows.baseline import Comparison, compare, equal_resnet
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import REST, SEARCH_SHARE, SPACE, FitPlan, chosen_image_size, plan_fit, training_epochs
from archgrad.workflows.limits import Limits, widest_within
from archgrad.workflows.select import Selection, SelectionPlan, run_selection
from archgrad.workflows.test_images import accuracy_interval, find_test_images, outputs_on
from archgrad.workflows.time_plan import epoch_seconds
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training_config import training_config
from archgrad.workflows.training_plan import TrainingPlan

__all__ = ["FitResult", "fit", "limits_of"]

_TEST_SHARE = 0.2
"""The share of the images that only tests the model, where the data has no test images."""
_LEAST_TESTS = 10
_MOST_BASELINE_EPOCHS = 1000

Tell = Callable[[str], None]


@dataclass(frozen=True)
class FitResult:
    """A model for the images, and what is known about it.

    ``outputs`` [N, classes] are those on the ``tests``, which trained and chose nothing. ``seconds`` is the time of
    each part.
    """

    model: Model
    plan: FitPlan
    selection: Selection
    baseline: TrainResult
    comparison: Comparison
    tests: Data = field(repr=False)
    outputs: Tensor = field(repr=False)
    seconds: dict[str, float]
    folder: Path | None = None

    @property
    def genotype(self) -> Genotype:
        """The architecture."""
        return self.selection.genotype

    @property
    def accuracy(self) -> float:
        """The accuracy on the test images in per cent."""
        return self.comparison.accuracy

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the accuracy."""
        correct = int((self.outputs.argmax(1) == self.tests.targets).sum())
        return accuracy_interval(correct, len(self.tests))

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fit.json``'s result."""
        cost = self.selection.final.cost
        return {
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "test_images": len(self.tests),
            "genotype": str(self.genotype),
            "channels": self.selection.final.space.channels,
            "depth": self.plan.cells,
            "parameters": cost.parameters,
            "multiply_adds": cost.multiply_adds,
            "baseline": {
                "accuracy": self.comparison.baseline, "p_value": self.comparison.p_value,
                "channels": self.baseline.space.channels, "parameters": self.baseline.cost.parameters,
                "epochs": self.baseline.epochs,
            },
            "verdict": str(self.comparison),
            "seconds": {name: round(one, 1) for name, one in self.seconds.items()},
        }  # fmt: skip


def limits_of(max_params: object, max_madds: object, max_latency: object) -> Limits:
    """Read limits as people write them; None: no limit."""
    return Limits(
        None if max_params is None else read_amount("max_params", str(max_params)),
        None if max_madds is None else read_amount("max_madds", str(max_madds)),
        None if max_latency is None else read_seconds("max_latency", str(max_latency)),
    )


def fit(
    data: Any,
    *,
    budget: str | float = "30m",
    max_params: str | int | None = None,
    max_madds: str | int | None = None,
    max_latency: str | float | None = None,
    test: Any = None,
    plan: FitPlan | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    resume: bool = False,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Tell = lambda text: None,
    request: dict[str, Any] | None = None,
    **options: Any,
) -> FitResult:
    """Find an architecture for these images, train it, test it, and compare it with a ResNet-20 of equal size.

    ``data`` is that of :func:`archgrad.search`; its targets must be classes. ``budget`` is the time for everything,
    such as "30m"; a number is minutes. The network keeps the limits ``max_params`` ("1M"), ``max_madds`` ("50M") and
    ``max_latency`` ("5ms" for one image on this machine). ``test`` has the test images, by default those of the data's
    source, or a fifth of the images. A given ``plan`` replaces the one that the measured machine and the budget make.
    ``options`` are ``data_dir``, ``image_size``, ``fit``, ``limit``, ``device``, ``precision`` and ``workers`` of
    :func:`archgrad.search`. ``tell`` is told what happens, in sentences.

    ``out`` is the folder for everything: the searches, the trainings, ``model/`` and ``report.html``. ``resume``
    continues there. ``request`` are plain values to keep there, for the command that continues.
    """
    seconds, limits = read_duration("budget", str(budget)), limits_of(max_params, max_madds, max_latency)
    folder = FitFolder(None if out is None else as_path("out", out), resume)
    with take_turns(), joined(str(options.get("device", "cpu"))):
        images, tests, options = _load(as_data(data), test, seconds, seed, options)
        started = time.monotonic()
        plan = folder.plan or plan or plan_fit(images, seconds, limits, options, tell)
        folder.begin(plan, images, request)
        folder.spend("planning", time.monotonic() - started)
        way = _Way(plan, images, tests, limits, seed, options, folder, tell, interruptible, tuple(callbacks))
        tell(way.announcement(seconds))
        genotypes = way.search()
        selection = way.select(genotypes, REST * seconds - folder.seconds["search"] - folder.seconds["planning"])
        baseline = way.train_baseline(selection)
        result = way.conclude(selection, baseline)
        folder.write(result)
        return result


def _load(
    data: Data | str, test: Any, seconds: float, seed: int, options: dict[str, Any]
) -> tuple[Data, Data, dict[str, Any]]:
    """Return the training and the test images at their final size, and the options that are left."""
    config = SearchConfig(data=data, seed=seed, **options)
    config.check_data()
    images = config.load_data()
    if not images.classes:
        raise UserError(f"the targets of {images.name!r} are no classes, which fit needs; use search and train.")
    if config.image_size is None:
        config = replace(config, image_size=chosen_image_size(images, seconds))
        images = config.load_data() if isinstance(data, str) else images.resized(config.image_size or 32, config.fit)
    tests = find_test_images(config, images, test)
    left = {name: one for name, one in options.items() if name not in ("data_dir", "image_size", "limit")}
    if tests is None:
        parts = split_data(images.targets, None, seed, _TEST_SHARE, images.classes)
        tests, images = images.select(parts.held_out), images.select(parts.weights)
    if len(tests) < _LEAST_TESTS:
        raise UserError(f"there are {len(tests)} images to test the model; give at least {_LEAST_TESTS} (more data).")
    return images, tests, left


@dataclass(frozen=True)
class _Way:
    """The parts of a fit, one after another."""

    plan: FitPlan
    images: Data
    tests: Data
    limits: Limits
    seed: int
    options: dict[str, Any]
    folder: FitFolder
    tell: Tell
    interruptible: bool
    callbacks: tuple[Callback, ...]

    @property
    def shape(self) -> dict[str, Any]:
        data = self.images
        return {"num_classes": data.num_classes, "input_channels": data.channels, "image_size": data.image_size}

    def announcement(self, seconds: float) -> str:
        """Say what will be done, and how long each part takes."""
        plan, minutes = self.plan, seconds / 60
        images = "all images" if plan.search_limit is None else f"{plan.search_limit:,} images"
        return (
            f"{len(self.images):,} images of {self.images.num_classes} classes at {plan.image_size}×{plan.image_size} "
            f"pixels, {len(self.tests):,} more to test; in about {minutes:.3g} minutes: {plan.searches} "
            f"search{'' if plan.searches == 1 else 'es'} ({plan.search_channels} channels, {plan.search_epochs} "
            f"epochs, {images}; {SEARCH_SHARE * minutes:.2g} minutes), selection and training of a network with up to "
            f"{plan.channels} channels and {plan.cells} cells per stage ({0.4 * minutes:.2g} minutes), and "
            f"ResNet-20 of equal size to compare with ({0.2 * minutes:.2g} minutes)"
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
            home, again = self.folder.part(f"search-{number + 1}")
            result = run_search(
                config, images=data, out=home, resume=again, interruptible=self.interruptible and home is not None,
                callbacks=self.callbacks,
            )  # fmt: skip
            self.folder.spend("search", result.seconds)
            if not result.undecided:
                found.append(result.genotype)
        if not found:
            raise UserError("the searches have chosen no architecture; give a larger budget (--budget).")
        return list(dict.fromkeys(found))

    def select(self, genotypes: list[Genotype], seconds: float) -> Selection:
        """Select by brief trainings, and train the best one."""
        space = replace(named_space(SPACE), channels=self.plan.channels, cells_per_stage=self.plan.cells)  # type: ignore[call-arg]
        for genotype in genotypes:  # the narrowest width that all of them need
            space = widest_within(self.limits, space, genotype, self.shape)
        epochs = self.plan.train_epochs or self.folder.decided("train_epochs")
        config = training_config(space, genotypes[0], self.images, epochs=epochs or 1, seed=self.seed, **self.options)
        if epochs is None:
            epochs = training_epochs(config, self.images, len(genotypes), seconds)
            self.folder.decide("train_epochs", epochs)
        plan = SelectionPlan(
            TrainingPlan(replace(config, epochs=epochs), "quick", (self.seed,), self.tests), tuple(genotypes), 1
        )
        self.tell(f"training {len(genotypes)} architecture(s) with {space.channels} channels for up to {epochs} epochs")
        home, again = self.folder.part("selection")
        selection = run_selection(
            plan, data=self.images, out=home, resume=again, interruptible=self.interruptible and home is not None,
            callbacks=self.callbacks, tell=self.tell,
        )  # fmt: skip
        self.folder.spend("selection", sum(one.seconds for one in selection.rounds))
        self.folder.spend("training", sum(run.seconds for run in selection.final.runs))
        return selection

    def train_baseline(self, selection: Selection) -> TrainResult:
        """Train a residual network of equal size for the same time."""
        space = equal_resnet(selection.final.cost, self.shape)
        epochs = self.folder.decided("baseline_epochs")
        config = training_config(space, RESNET, self.images, epochs=epochs or 1, seed=self.seed, **self.options)
        if epochs is None:
            taken = sum(run.seconds for run in selection.final.runs)
            epochs = round(taken / epoch_seconds(config, self.images))
            epochs = min(max(epochs, 1), _MOST_BASELINE_EPOCHS)
            self.folder.decide("baseline_epochs", epochs)
        self.tell(f"training ResNet-20 with {space.channels} channels for {epochs} epochs, the same time")
        home, again = self.folder.part("resnet")
        result = run_training(
            TrainingPlan(replace(config, epochs=epochs), "quick", (self.seed + 1,), self.tests), data=self.images,
            out=home, resume=again, interruptible=self.interruptible and home is not None, callbacks=self.callbacks,
        )  # fmt: skip
        self.folder.spend("ResNet-20", result.runs[0].seconds)
        return result

    def conclude(self, selection: Selection, baseline: TrainResult) -> FitResult:
        """Test both networks on the same images."""
        every = torch.arange(len(self.tests))
        models = (selection.final.model, baseline.model)
        outputs, others = (
            outputs_on(model.network, self.tests, every, model.preprocessing.normalization) for model in models
        )
        comparison = compare(outputs, others, self.tests.targets)
        correct = int((outputs.argmax(1) == self.tests.targets).sum())
        about = {**models[0].about, "interval": list(accuracy_interval(correct, len(self.tests)))}
        model = replace(models[0], about=about)
        return FitResult(
            model, self.plan, selection, baseline, comparison, self.tests, outputs, self.folder.seconds,
            self.folder.path,
        )  # fmt: skip
