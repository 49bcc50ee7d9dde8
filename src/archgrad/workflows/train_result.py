"""The result of training one architecture, with one or several seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from archgrad.callbacks import Record
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.loop import SearchResult
from archgrad.models import Model, Preprocessing
from archgrad.models.classifier import CLASSES, LABELS, NUMBERS
from archgrad.report import to_svg
from archgrad.spaces import Cost, Genotype, SearchSpace
from archgrad.tasks import TASKS, BaseTask, MetricInfo, Multilabel
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.test_images import accuracy_interval, measure, outputs_on

__all__ = ["TrainResult", "TrainedSeed", "mean_and_deviation", "result_of", "trained_seed"]


@dataclass(frozen=True)
class TrainedSeed:
    """The training with one seed: its model, its records, and its metrics on held-out and on test images.

    ``heldout`` and ``test`` are metrics by name, None if there are no such images. ``outputs`` are those of the network
    on the test images.
    """

    seed: int
    model: Model = field(repr=False)
    history: tuple[Record, ...] = field(repr=False)
    seconds: float
    heldout: Mapping[str, float] | None = None
    test: Mapping[str, float] | None = None
    folder: Path | None = None
    outputs: Tensor | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class TrainResult:
    """Trainings of one architecture, one for each seed.

    ``metric`` is the main metric of the task, and ``cost`` that of the network.
    """

    space: SearchSpace
    genotype: Genotype
    epochs: int
    cost: Cost
    metric: MetricInfo
    runs: tuple[TrainedSeed, ...]

    @property
    def model(self) -> Model:
        """The model of the best seed by held-out images; of the first seed where none are held out.

        Test images choose nothing.
        """
        held = [run for run in self.runs if run.heldout is not None]
        if not held:
            return self.runs[0].model
        sign = 1 if self.metric.higher_is_better else -1
        return max(held, key=lambda run: sign * (run.heldout or {})[self.metric.name]).model

    def values(self, part: str, metric: str | None = None) -> list[float]:
        """Return the main metric, or another, of every seed on "heldout" or "test" images; empty if there are none."""
        found = [getattr(run, part) for run in self.runs]
        return [one[metric or self.metric.name] for one in found if one is not None]

    def __repr__(self) -> str:
        return f"<TrainResult {self._summary}>"

    def _repr_html_(self) -> str:
        """Return a few lines and the drawn cell for notebooks."""
        return f"<p><b>TrainResult</b>: {escape(self._summary)}</p>{to_svg(self.genotype)}"

    @property
    def _summary(self) -> str:
        parts = (("held-out", self.values("heldout")), ("test", self.values("test")))
        told = [f"{title} {self.metric.name} {self.metric.show(fmean(one), 2)}" for title, one in parts if one]
        seeds = f"{len(self.runs)} seeds, " if len(self.runs) > 1 else ""
        size = f"{self.space.name} with {self.space.channels} channels, {self.cost.parameters / 1e6:.3f} M parameters"
        return f"{', '.join([*told, size])}, {seeds}{sum(run.seconds for run in self.runs):.1f} seconds"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``result.json``."""
        parts = {part: self.values(part) for part in ("heldout", "test")}
        return {
            "space": self.space.name,
            "channels": self.space.channels,
            "depth": getattr(self.space, self.space.depth_knob),
            "genotype": str(self.genotype),
            "epochs": self.epochs,
            "parameters": self.cost.parameters,
            "multiply_adds": self.cost.multiply_adds,
            "metric": self.metric.name,
            "unit": self.metric.unit,
            **{part: mean_and_deviation(values) for part, values in parts.items() if values},
            "seeds": [
                {
                    "seed": run.seed, "seconds": round(run.seconds, 3), "heldout": run.heldout, "test": run.test,
                    "model": None if run.folder is None else str(run.folder / "model"),
                }
                for run in self.runs
            ],
        }  # fmt: skip


def mean_and_deviation(values: list[float]) -> dict[str, Any]:
    """Return the mean, the standard deviation of a sample (None for one value), and the values.

    >>> mean_and_deviation([90.0, 92.0])
    {'mean': 91.0, 'std': 1.4142135623730951, 'values': [90.0, 92.0]}
    """
    deviation = stdev(values) if len(values) > 1 else None
    return {"mean": fmean(values), "std": deviation, "values": values}


def trained_seed(
    found: SearchResult, network: SingleArchitecture, seed: int, tests: Data | None, folder: Path | None
) -> TrainedSeed:
    """Return the model that a run of the loop has trained, and measure it."""
    (setup, state), normalization = found.stages.runs[-1], found.normalization
    data, shape = setup.weight_loader.data, dict[str, Any](setup.network_shape)
    plain = network.base.network(network.fixed, **shape).to(setup.device)
    weights = state.supernet.state_dict() if state.average is None else state.average.tensors
    plain.load_state_dict({name: weights[f"body.{name}"] for name in plain.state_dict()})  # no auxiliary head
    plain.eval()

    def outputs_of(images: Data, indices: Tensor) -> Tensor:
        return outputs_on(plain, images, indices, normalization)

    indices = None if setup.held_out_loader is None else setup.held_out_loader.indices
    held = None if indices is None else measure(setup.task, outputs_of(data, indices), data.targets[indices])
    outputs = None if tests is None else outputs_of(tests, torch.arange(len(tests)))
    test = None if tests is None or outputs is None else measure(setup.task, outputs, tests.targets)
    about = {
        "data": data.name, "task": _task_name(setup.task), "epochs": setup.weights.epochs, "seed": seed,
        "predicts": CLASSES if data.classes and data.targets.dim() == 1 else NUMBERS, "heldout": held, "test": test,
    }  # fmt: skip
    if isinstance(setup.task, Multilabel):
        about |= {"predicts": LABELS, "threshold": setup.task.threshold}
    if tests is not None and test is not None and about["predicts"] == CLASSES and "accuracy" in test:
        about["interval"] = list(accuracy_interval(round(test["accuracy"] * len(tests) / 100), len(tests)))
    classes = data.classes or tuple(map(str, range(setup.outputs)))
    preprocessing = Preprocessing(data.channels, data.image_size, normalization, setup.config.resize)
    model = Model(plain.cpu(), network.base, network.fixed, preprocessing, classes, about)
    return TrainedSeed(seed, model, found.history, found.seconds, held, test, folder, outputs)


def _task_name(task: BaseTask) -> str:
    try:
        return TASKS.name_of(task)
    except UserError:  # no file can name it
        return "own"


def result_of(found: SearchResult, network: SingleArchitecture, runs: tuple[TrainedSeed, ...]) -> TrainResult:
    """Return the result of all seeds; ``found`` is the run of any of them."""
    setup = found.stages.runs[-1][0]
    image_size = setup.weight_loader.data.shape[1:]
    cost = network.base.cost(network.fixed, **setup.network_shape, image_size=image_size)
    return TrainResult(network.base, network.fixed, found.epochs, cost, setup.task.main_metric.info, runs)
