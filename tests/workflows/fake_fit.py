"""A fit on a machine without noise: nothing is trained, and the clock goes on by the work that would be done."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from archgrad.config.resolve import space_of
from archgrad.data import ImageData
from archgrad.spaces import MOBILENET, RESNET, Cost, Genotype, NASBench201
from archgrad.tasks import MetricInfo
from archgrad.workflows import TrainedSeed, Training, TrainResult, candidates, fit_steps, fit_trainings, limits, pacing
from archgrad.workflows import mirrored as mirror
from archgrad.workflows.candidates import shape_of
from archgrad.workflows.fit import run_fit
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import FitPlan
from archgrad.workflows.fit_report import FitResult
from tests.models.trained import model_of

FOUND = Genotype.parse(
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
)
MODEL = model_of(NASBench201(channels=2, cells_per_stage=1))


def pictures(count: int, size: int, classes: int = 10) -> ImageData:
    """Return images that are black but for two pixels, in which they differ."""
    images = torch.zeros(count, 3, size, size, dtype=torch.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = torch.arange(count) % 256, torch.arange(count) // 256
    return ImageData("black", images, torch.arange(count) % classes, tuple(map(str, range(classes))))


def rough_cost(space: Any, genotype: Genotype, shape: dict[str, Any]) -> Cost:
    """Count roughly, which is quick: three stages with half the pixels and twice the channels each."""
    known = {RESNET: 2.0, MOBILENET: 0.5}
    each = known.get(genotype) or str(genotype).count("nor_conv_3x3") + str(genotype).count("1x1") / 9
    convolutions = 3 * each * getattr(space, space.depth_knob) + 1
    weights = 9 * convolutions * space.channels**2
    return Cost(int(7 * weights), int(weights * shape["image_size"] ** 2))


class Machine:
    """A machine whose images take the time of their multiply-adds; measured steps seem faster or slower than they are.

    ``value`` says how good a training is on the images that it is tested on, by its training and its images.
    """

    speed, seeming, overhead = 6e10, 1.0, 0.5
    bf16_gain = 1.0
    per_epoch = 0.0
    """Seconds of an epoch beside its images, which measured steps do not show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.spans = 0.0, list[tuple[str, float]]()
        self.value, self.mirrored = lambda training: 50.0, 0.0
        self.trainings: list[Training] = []
        monkeypatch.setattr(pacing.time, "monotonic", lambda: self.now)
        for name in ("run_search", "fit_sizes", "choose_threads"):
            monkeypatch.setattr(fit_steps, name, getattr(self, name))
        for name in ("run_training", "epoch_seconds"):
            monkeypatch.setattr(fit_trainings, name, getattr(self, name))
        monkeypatch.setattr(fit_steps, "outputs_on", self.outputs)
        monkeypatch.setattr(mirror, "mirror_statistic", lambda model, data, task: self.mirrored)
        for module in (candidates, fit_trainings, limits):
            monkeypatch.setattr(module, "cost_of", rough_cost)

    def seconds_of(self, config: Any, images: int) -> float:
        space: Any = space_of(config)
        madds = rough_cost(space.base, space.fixed, shape_of(config.data, config.data.num_classes)).multiply_adds
        return images * (3 * madds / self.speed / (self.bf16_gain if config.precision == "bf16" else 1.0) + 1e-5)

    def choose_threads(self, parts: Any, data: Any) -> int:
        self.now += 1.0
        return 1

    def epoch_seconds(self, config: Any, data: Any, at_most: float) -> float:
        self.now += min(5 * self.seconds_of(config, 64), max(at_most, 2 * self.seconds_of(config, 64)))
        return self.seconds_of(config, len(data)) * self.seeming

    def fit_sizes(self, config: Any, data: Any) -> Any:
        self.now += 6 * config.time_limit
        chosen = replace(config, epochs=2, channels=8, cells=1, batch_size=64)
        return SimpleNamespace(config=chosen, steps=int(60 * config.time_limit / 0.05))

    def run_search(self, config: Any, **more: Any) -> Any:
        self.now += 0.25 * self.budget * self.seeming
        return SimpleNamespace(seconds=1.0, undecided=False, genotype=FOUND)

    def run_training(self, training: Training, **place: Any) -> TrainResult:
        config, runs = training.config, []
        length = config.epochs * config.settings.get("weights.epoch_images", len(config.data))
        self.trainings.append(training)
        for seed in training.seeds:
            taken = self.seconds_of(config, length) + config.epochs * self.per_epoch
            self.now += taken + self.overhead
            self.spans.append((place.get("out") or "", taken))
            test, outputs = None, None
            if training.test != "none":
                test, tests = {"accuracy": self.value(training)}, training.test
                right = torch.arange(len(tests)) < len(tests) * test["accuracy"] / 100
                outputs = torch.eye(tests.num_classes)[
                    torch.where(right, tests.targets, 1 - tests.targets.clamp(max=1))
                ]
            history = ({"seconds": taken / config.epochs},) * config.epochs
            runs.append(TrainedSeed(seed, MODEL, history, taken, None, test, outputs=outputs))
        space: Any = training.network
        info = MetricInfo("accuracy", True, "%")
        return TrainResult(space.base, space.fixed, config.epochs, Cost(1, 1), info, tuple(runs))

    def outputs(self, network: Any, data: Any, indices: Any, how: Any) -> torch.Tensor:
        self.now += len(indices) * 1e-3
        return torch.eye(data.num_classes)[data.targets[indices]]

    def fit(self, data: Any, budget: float, plan: FitPlan | None = None, **request: Any) -> FitResult:
        """Fit in so many seconds."""
        self.budget, self.told = budget, list[str]()
        given = {"data": data, "test": data.limited(len(data) // 5, 1), "budget": f"{budget:g}s", **request}
        return run_fit(given, FitFolder(None), plan, tell=self.told.append)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine."""
    return Machine(monkeypatch)
