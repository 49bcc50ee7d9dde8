"""The steps of a search at its beginning, to be taken again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Augmentation, ImageData
from archgrad.loop.experiment import Experiment
from archgrad.loop.loaders import StepBatches
from archgrad.method.bundle import Method
from archgrad.regularizers import LayerAlignment, Regularizer
from archgrad.system import random_streams
from benchmarks.common import Case

__all__ = ["SearchSteps"]

DRAWS = 5
"""Where architectures are drawn, a step costs what was drawn: the mean over so many draws is taken."""


class SearchSteps:
    """A search without warm-up, and how often one iteration of its loop takes each kind of step."""

    def __init__(self, case: Case, method: Method) -> None:
        method = replace(method, schedule=replace(method.schedule, warmup_epochs=0))
        method = replace(method, regularizers=tuple(map(at_full_strength, method.regularizers)))
        self.setup = Experiment.of(
            resolve(SearchConfig(space=case.build(), method=method, batch_size=case.batch)), random_images(case)
        )
        torch.manual_seed(0)
        self.state = self.setup.initial_state()
        self.stepper = self.setup.stepper(self.state)
        self.per_iteration = per_iteration(method)
        self._draws = DRAWS if method.relaxation.sampled else 1
        self._start = self.state.alpha, self.state.arch_state

    def steps(self) -> list[Callable[[], None]]:
        """Return what takes each kind of step, ``DRAWS`` times for a sampled relaxation."""
        return [partial(self._take, kind) for kind in self.per_iteration]

    def milliseconds(self, times: list[float]) -> dict[str, float]:
        """Return the milliseconds of each kind of step, and of an iteration, from the times of :meth:`steps`."""
        found = {kind: time / self._draws for kind, time in zip(self.per_iteration, times, strict=True)}
        return {**found, "iteration": sum(self.per_iteration[kind] * time for kind, time in found.items())}

    def batches(self) -> StepBatches:
        """Return the batches of the current step."""
        return StepBatches(self.setup.weight_loader, self.setup.arch_loader, self.state.index)

    def _take(self, kind: str) -> None:
        for step in range(self._draws):
            self.state.step, (self.state.alpha, self.state.arch_state) = step, self._start
            batches = self.batches()
            if kind == "architecture":
                self.stepper.architecture_step(self.state, batches)
            elif kind == "weights":
                self.stepper.weight_step(self.state, batches.inner(0))
            else:
                self.stepper.joint_step(self.state, batches.inner(0))


def per_iteration(method: Method) -> dict[str, float]:
    """Return how often an iteration takes each kind of step; ``joint`` is one pass for weights and architecture."""
    schedule = method.schedule
    if not method.arch_optimizer.moves:
        return {"weights": 1.0}
    if schedule.updates == "simultaneous":
        return {"joint": 1.0}
    if schedule.updates == "random":
        return {"architecture": 0.5, "weights": 0.5}
    return {"architecture": 1.0, "weights": float(schedule.inner_steps)}


def at_full_strength(regularizer: Regularizer) -> Regularizer:
    """Return layer alignment without its linear schedule, with which the first steps would cost nothing."""
    return replace(regularizer, schedule="constant") if isinstance(regularizer, LayerAlignment) else regularizer


def random_images(case: Case) -> ImageData:
    """Return random images, augmented as photographs are."""
    count, stream = 16 * case.batch, random_streams.generator(0, "images")
    shape = (count, 3, case.image_size, case.image_size)
    images = torch.randint(0, 256, shape, generator=stream, dtype=torch.uint8)
    augmentation = Augmentation(crop_padding=case.image_size // 8, flip=True)
    return ImageData("random", images, torch.arange(count) % 10, tuple("0123456789"), augmentation)
