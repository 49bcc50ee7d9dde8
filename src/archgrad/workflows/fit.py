"""The whole way from images to a model: search, select, train, test, and compare with a residual network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from archgrad.callbacks import Callback
from archgrad.config import SearchConfig
from archgrad.data import Data, as_data
from archgrad.distributed.processes import processes
from archgrad.errors import UserError, unknown
from archgrad.loop.entry import run_search
from archgrad.models.export import SUFFIXES, export_model
from archgrad.models.onnx_model import check_installed
from archgrad.parts.fields import check_value
from archgrad.spaces import RESNET, Genotype, SearchSpace
from archgrad.system.amounts import read_duration
from archgrad.system.files import as_path, exists, list_folder, shown_path, write_text
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import (
    REST,
    SEARCH_SHARE,
    FitPlan,
    check_limits,
    load_images,
    network_space,
    network_training,
    plan_fit,
    shape_of,
    sized_space,
    training_epochs,
)
from archgrad.workflows.fit_report import FitResult, compare, report_page
from archgrad.workflows.folders import run_alone
from archgrad.workflows.limits import Limits, equal_resnet
from archgrad.workflows.select import SelectionResult, run_selection
from archgrad.workflows.selection import SelectionPlan
from archgrad.workflows.test_images import accuracy_interval, outputs_on
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import TrainResult
from archgrad.workflows.training import Training, epoch_seconds

__all__ = ["fit", "run_fit"]

REPORT = "report.html"
_ARGUMENTS = ("data", "test", "budget", "max_params", "max_madds", "max_latency", "seed", "target")
_OF_THE_IMAGES = ("data_dir", "image_size", "limit")
_OPTIONS = (*_OF_THE_IMAGES, "resize", "strict", "device", "precision", "threads", "workers")
_MOST_BASELINE_EPOCHS = 1000
_MEASURING_SHARE = 0.05
"""The share of the baseline's time that measuring its epoch may take."""


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
    target: Path | str | None = None,
    out: Path | str | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> FitResult:
    """Find an architecture for these images, train it, test it, and compare it with a ResNet-20 of equal size.

    ``data`` is that of :func:`archgrad.search`; its targets must be classes. ``budget`` is the time for everything,
    such as "30m"; a number is minutes. The network keeps the limits ``max_params`` ("1M"), ``max_madds`` ("50M") and
    ``max_latency`` ("5ms" for one image on this machine). ``test`` has the test images, by default those of the data's
    source, or a fifth of the images. A given ``plan`` replaces the one that the measured machine and the budget make.
    ``options`` are ``data_dir``, ``image_size``, ``resize``, ``strict``, ``limit``, ``device``, ``precision``,
    ``threads`` and ``workers`` of :func:`archgrad.search`. ``tell`` is told what happens, in sentences.

    ``out`` is the folder for everything: the searches, the trainings, ``model/`` and ``report.html``.
    :func:`archgrad.resume` continues there. ``target`` is a folder, or a file that ends with .onnx or .pt2, where
    the model is written too.
    """
    request = {
        "data": data, "test": test, "budget": budget, "max_params": max_params, "max_madds": max_madds,
        "max_latency": max_latency, "seed": seed, "target": target, **options,
    }  # fmt: skip
    check_value("plan", plan, FitPlan | None)
    folder = FitFolder(None if out is None else as_path("out", out))
    return run_fit(request, folder, plan, interruptible=interruptible, callbacks=callbacks, tell=tell)


def run_fit(
    request: Mapping[str, Any],
    folder: FitFolder,
    plan: FitPlan | None = None,
    *,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> FitResult:
    """Begin a fit by the arguments of :func:`fit` in its folder, or continue the one that is there."""
    started, seconds = time.monotonic(), read_duration("budget", str(request["budget"]))
    limits = Limits.of(*(request.get(f"max_{name}") for name in ("params", "madds", "latency")))
    options, target = _options(request), _checked_target(request.get("target"))
    with run_alone(str(options.get("device", "cpu")), folder.path), _using_threads(options.get("threads")):
        folder.check()
        config = SearchConfig(data=as_data(request["data"]), seed=request.get("seed", 0), **options)
        images, tests = load_images(config, request.get("test"), seconds, folder.plan or plan)
        how = {name: one for name, one in options.items() if name not in _OF_THE_IMAGES}
        plan = folder.plan or plan or plan_fit(images, seconds, how, tell)
        if not folder.resume:
            check_limits(limits, plan, shape_of(images))
        folder.begin(request, plan, images, tests, time.monotonic() - started)
        steps = _Steps(
            plan, images, tests, seconds, started, limits, config.seed, how, folder, tell, interruptible, callbacks
        )  # fmt: skip
        tell(steps.announcement())
        selection = steps.select(steps.search())
        return _written(steps.test(selection, steps.train_baseline(selection)), target, folder)


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration among the arguments; reject unknown ones."""
    for name in request:
        if name not in (*_ARGUMENTS, *_OPTIONS):
            raise unknown("option of fit:", name, _OPTIONS)
    return {name: one for name in _OPTIONS if (one := request.get(name)) is not None}


@contextmanager
def _using_threads(count: int | None) -> Iterator[None]:
    """Use so many threads, because the last bits of a sum depend on them; None leaves their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Steps:
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
    callbacks: Sequence[Callback]

    def announcement(self) -> str:
        """Say what will be done."""
        plan, data = self.plan, self.images
        images = "all images" if plan.search_limit is None else f"{plan.search_limit:,} images"
        size = "as large as the time allows" if plan.channels is None else f"with up to {plan.channels} channels"
        return (
            f"{len(data):,} images of {data.num_classes} classes at {data.image_size}×{data.image_size} pixels, "
            f"{len(self.tests):,} more to test, {self.seconds / 60:.2g} minutes for everything: {plan.searches} "
            f"search(es) ({plan.search_channels} channels, {plan.search_epochs} epochs, {images}, about "
            f"{SEARCH_SHARE:.0%} of the time), selection and training of a network {size}, and ResNet-20 of equal size "
            f"to compare with"
        )

    def search(self) -> list[Genotype]:
        """Search with several seeds, and return the different architectures."""
        found, data = [], self.images
        if self.plan.search_limit is not None:
            data = data.limited(min(self.plan.search_limit, len(data)), self.seed)
        for number in range(self.plan.searches):
            self.tell(f"search {number + 1} of {self.plan.searches}")
            config = self.plan.search_config(self.seed + number, {**self.options, "data": data})
            result = run_search(config, images=data, **self._place(f"search-{number + 1}"))
            self.folder.spend("search", result.seconds)
            if not result.undecided:
                found.append(result.genotype)
        if not found:
            raise UserError("the searches have chosen no architecture; give a larger budget (--budget).")
        return list(dict.fromkeys(found))

    def select(self, genotypes: list[Genotype]) -> SelectionResult:
        """Select by brief trainings, and train the best one."""
        space, count = self._network_space(genotypes), len(genotypes)
        training = self._training(space, genotypes[0], self.seed)
        epochs = self.plan.train_epochs or self.folder.decide(
            "train_epochs", lambda: training_epochs(training.config, self.images, count, self._left)
        )
        training = replace(training, config=replace(training.config, epochs=epochs))
        self.tell(f"training {count} architecture(s) with {space.channels} channels for up to {epochs} epochs")
        plan = SelectionPlan(training, tuple(genotypes), 1)
        selection = run_selection(plan, data=self.images, tell=self.tell, **self._place("selection"))
        self.folder.spend("selection", sum(one.seconds for one in selection.rounds))
        self.folder.spend("training", sum(run.seconds for run in selection.final.runs))
        return selection

    def _training(self, space: SearchSpace, genotype: Genotype, seed: int) -> Training:
        """Describe the training of a network; its epochs are still to be decided."""
        options = {**self.options, "epochs": 1, "seed": seed, "test": self.tests}
        return network_training(space, genotype, self.images, **options)

    def _network_space(self, genotypes: list[Genotype]) -> SearchSpace:
        """Choose the size of the network once: a measured latency may differ after a resume."""

        @cache
        def chosen() -> SearchSpace:
            return network_space(self.plan, genotypes, self.images, self._left, self.limits, self.options)

        channels = self.folder.decide("channels", lambda: chosen().channels)
        cells = self.folder.decide("cells", lambda: int(getattr(chosen(), chosen().depth_knob)))
        return sized_space(channels, cells)

    @property
    def _left(self) -> float:
        """The seconds that are left after the searches; not less than a small share of all.

        After a resume, the time of the earlier process counts by its parts.
        """
        parts = self.folder.seconds["search"] + self.folder.seconds["planning"]
        spent = max(time.monotonic() - self.started, parts)
        return max(REST * self.seconds - spent, 0.1 * self.seconds)

    def train_baseline(self, selection: SelectionResult) -> TrainResult:
        """Train a residual network of equal size for the same time."""
        space = equal_resnet(selection.final.cost, shape_of(self.images))
        training = self._training(space, RESNET, self.seed + 1)
        taken = sum(run.seconds for run in selection.final.runs)

        def epochs_in_the_same_time() -> int:
            found = round(taken / epoch_seconds(training.config, self.images, _MEASURING_SHARE * taken))
            return min(max(found, 1), _MOST_BASELINE_EPOCHS)

        epochs = self.plan.baseline_epochs or self.folder.decide("baseline_epochs", epochs_in_the_same_time)
        training = replace(training, config=replace(training.config, epochs=epochs))
        self.tell(f"training ResNet-20 with {space.channels} channels for {epochs} epochs, the same time")
        result = run_training(training, data=self.images, **self._place("resnet"))
        self.folder.spend("ResNet-20", result.runs[0].seconds)
        return result

    def _place(self, name: str) -> dict[str, Any]:
        """Return where a part runs, and how."""
        home, begun = self.folder.part(name)
        interruptible = self.interruptible and home is not None
        return {"out": home, "resume": begun, "interruptible": interruptible, "callbacks": self.callbacks}

    def test(self, selection: SelectionResult, baseline: TrainResult) -> FitResult:
        """Test both networks on the same images."""
        every, targets = torch.arange(len(self.tests)), self.tests.targets
        models = (selection.final.model, baseline.model)
        outputs, others = (
            outputs_on(model.network, self.tests, every, model.preprocessing.normalization) for model in models
        )
        interval = accuracy_interval(int((outputs.argmax(1) == targets).sum()), len(self.tests))
        model = replace(models[0], about={**models[0].about, "interval": list(interval)})
        return FitResult(
            model, self.plan, selection, baseline, compare(outputs, others, targets), interval, self.tests, outputs,
            self.folder.seconds, self.folder.path,
        )  # fmt: skip


def _written(result: FitResult, target: Path | None, folder: FitFolder) -> FitResult:
    """Write the model, the report and the result."""
    if processes().rank:
        return result
    if folder.path is not None:
        result.model.save(folder.path / "model")
        write_text(folder.path / REPORT, report_page(result))
        folder.save(result=result.to_dict())
    if target is None:
        return result
    try:
        file = export_model(result.model, target).file if target.suffix else result.model.save(target)
    except UserError as error:
        kept = "" if folder.path is None else f" The model itself is in {shown_path(folder.path / 'model')}."
        raise UserError(f"{error}{kept}") from error
    return replace(result, files=(str(file),))


def _checked_target(given: Any) -> Path | None:
    """Return the place for the model; reject one that cannot be written, before anything is trained."""
    if given is None:
        return None
    target = as_path("target", given).absolute()
    try:
        problem = _problem_of(target)
    except (OSError, ValueError) as error:
        problem = f"no file can have this name ({getattr(error, 'strerror', None) or error}); give another name"
    if problem:
        raise UserError(f"target (--model) is {shown_path(target)}; {problem}.")
    if target.suffix == ".onnx":
        check_installed("onnx", "onnxscript", "onnxruntime")
    return target


def _problem_of(target: Path) -> str:
    """Say what is wrong with the place for a model, if anything."""
    if target.suffix not in (*SUFFIXES, "") or (not target.suffix and target.is_file()):
        return f"give a folder, or a file that ends with {', '.join(SUFFIXES)}"
    if target.suffix:
        return "give a file in a folder that exists" if target.is_dir() or not target.parent.is_dir() else ""
    filled = target.is_dir() and any(list_folder(target)) and not exists(target / "model.json")
    return "it is not empty and no model, so give a new folder" if filled else ""
