"""The trainings of a fit: how they are described, carried out, and how fast they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from archgrad.callbacks import Callback
from archgrad.config import SearchConfig
from archgrad.config.resolve import task_of
from archgrad.data import Data
from archgrad.distributed.processes import from_first
from archgrad.errors import UserError
from archgrad.spaces import ResNet
from archgrad.system.amounts import counted
from archgrad.tasks import BaseTask
from archgrad.workflows.candidates import Candidate, reference, shape_of
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import FitPlan, Images
from archgrad.workflows.length import Length
from archgrad.workflows.limits import Limits, cost_of
from archgrad.workflows.pacing import Clock
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training import NO_TEST, PLAN, Training, epoch_seconds

__all__ = ["TRAINED", "FitTrainings"]

TRAINED, _BOTH = ("weights",), ("task", "augmentation")
"""Parts whose settings are for trainings only, and for trainings and the search."""
_FASTER = 0.85
"""Training in bfloat16 must take at most this share of the time of 32 bits to be chosen."""
_MEASURING = 0.01
"""The share of the time that one measurement may take after its first steps."""
_PILOT, _PILOT_OF = 2, 20
"""So many whole epochs are timed before a training of at least the second number: small epochs are not only steps."""


@dataclass(frozen=True)
class FitTrainings:
    """A fit that runs: its images, its clock and its folder, and how fast its networks have trained so far.

    ``start_from`` is the folder of a trained model, which is the first candidate.
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
    start_from: str | None = None
    rates: dict[str, float] = field(default_factory=dict)
    trained: dict[str, Candidate] = field(default_factory=dict)
    sized: dict[int, Images] = field(default_factory=dict)

    def decide(self, name: str, choose: Callable[[], Any]) -> Any:
        """Return a decision of this fit; the first time it is made, and kept."""
        return self.folder.decide(name, choose, self.clock)

    @property
    def first(self) -> SearchConfig:
        """The training of the network that is measured first."""
        data, precision = self.images.train, self.options.get("precision", "32")
        return self.training(reference(data.image_size), data, Length(1, len(data)), precision=precision).config

    @property
    def given_task(self) -> BaseTask:
        """The task with its settings."""
        return task_of(self.first)

    @property
    def task(self) -> BaseTask:
        """The task, suited to the images."""
        return self.given_task.suited_to(self.images.train)

    @property
    def shape(self) -> dict[str, Any]:
        """What a network needs to know of the images and the task."""
        return shape_of(self.images.every, self.given_task.outputs(self.images.every))

    def images_for(self, candidate: Candidate) -> Images:
        """Return the images at the size that a candidate takes."""
        size = candidate.image_size
        if size not in self.sized:
            self.sized[size] = self.images.resized(size, self.options.get("resize", "crop"))
        return self.sized[size]

    def place(self, name: str, marker: str = PLAN) -> dict[str, Any]:
        """Return where a part runs, and how."""
        home, begun = self.folder.part(name, marker)
        interruptible = self.interruptible and home is not None
        return {"out": home, "resume": begun, "interruptible": interruptible, "callbacks": self.callbacks}

    def training(self, one: Candidate, data: Any, length: Length, test: Any = NO_TEST, **changes: Any) -> Training:
        """Describe a training of a candidate; the images that it is tested on rank it."""
        own = {path: value for path, value in self.settings.items() if path.partition(".")[0] in (*TRAINED, *_BOTH)}
        options = {**self.options, "seed": self.seed, "test": test}
        options |= {"settings": {**length.settings(len(data)), **own}, **changes}
        if "precision" not in options:
            options["precision"] = self._precision(one)
        return one.training(data, length, options)

    def carry_out(self, candidate: Candidate, training: Training, length: Length, place: str) -> TrainResult:
        """Train in a folder of the fit, and keep how fast it was."""
        result = run_training(training, **self.place(place))
        epochs = [record["seconds"] for run in result.runs for record in run.history]
        self.rates[candidate.network] = length.images / max(median(epochs), 1e-6)
        self.trained[candidate.network] = candidate
        return result

    def pilot(self, candidate: Candidate, data: Data, length: Length) -> bool:
        """Time a few whole epochs of a long training, if nothing but steps of its network was timed before."""
        if candidate.network in self.trained or length.epochs < _PILOT_OF:
            return False
        self.tell(f"timing {counted(_PILOT, 'epoch')} of {length.images:,} images; {self.clock}")
        short = Length(_PILOT, length.images)
        result = self.carry_out(candidate, self.training(candidate, data, short), short, "pilot")
        self.folder.spend("timing", result.runs[0].seconds)
        return True

    def speed(self) -> float:
        """Return how many multiply-adds a second this machine trains, by a ResNet: one that has trained, if any has."""
        known = [one for one in self.trained.values() if one.space == ResNet.name]
        one = known[-1] if known else reference(self.images.every.image_size)
        shape = {**self.shape, "image_size": one.image_size}
        return self.rate(one) * cost_of(one.sized, one.parsed, shape).multiply_adds

    def rate(self, candidate: Candidate) -> float:
        """Return how many images per second a network trains: in its last training, or in a few measured steps."""
        precision = self.options.get("precision") or self._precision(candidate)  # its choice may measure the rate
        if candidate.network not in self.rates:
            self.rates[candidate.network] = self._measured(candidate, precision)
        return self.rates[candidate.network]

    def _precision(self, one: Candidate) -> str:
        """Return the precision that suits networks of this kind on this machine."""
        chosen: str = self.decide(f"precision-{one.space}", lambda: self._faster(one))
        return chosen

    def _faster(self, one: Candidate) -> str:
        """Return bf16 if a network trains clearly faster with it, else 32; keep its rate."""
        try:
            rates = {name: self._measured(one, name) for name in ("bf16", "32")}
        except UserError:  # PyTorch cannot compute it on this device
            return "32"
        chosen = "bf16" if rates["32"] < _FASTER * rates["bf16"] else "32"
        self.rates[one.network] = rates[chosen]
        if chosen == "bf16":
            self.tell(f"networks of {one.space} train in bfloat16, which is faster here")
        return chosen

    def _measured(self, one: Candidate, precision: str) -> float:
        """Return how many images per second a network trains in a few steps; all processes measure together."""
        data = self.images_for(one).train
        config = self.training(one, data, Length(1, len(data)), precision=precision).config
        seconds = epoch_seconds(config, data, _MEASURING * self.clock.seconds)
        return from_first(lambda: len(data) / seconds)
