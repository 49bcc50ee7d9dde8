"""The whole way from images to a model: search, select among whole trainings, train the best one, and test it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.callbacks.progress import Display
from archgrad.config import SearchConfig, config_to_toml, read_run_config
from archgrad.config.naming import named_config
from archgrad.config.resolve import resolve
from archgrad.data import as_data
from archgrad.distributed.processes import processes
from archgrad.errors import UserError, shortened, unknown
from archgrad.loop.global_state import own_threads
from archgrad.models.export import SUFFIXES, export_model
from archgrad.models.onnx_model import check_installed
from archgrad.parts.fields import Count, check_value
from archgrad.report.page import to_html
from archgrad.report.page.fits import page_of_fit
from archgrad.system.amounts import read_duration
from archgrad.system.files import as_path, existing_path, exists, list_folder, shown_path, write_text
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_plan import FitPlan, load_images
from archgrad.workflows.fit_report import FitResult, describe_test
from archgrad.workflows.fit_steps import FitSteps
from archgrad.workflows.folders import REPORT, run_alone
from archgrad.workflows.length import Length
from archgrad.workflows.limits import Limits
from archgrad.workflows.pacing import Clock

__all__ = ["fit", "run_fit"]

_ARGUMENTS = (
    "data", "test", "budget", "max_params", "max_madds", "max_latency", "compare", "settings", "seed", "target",
    "start_from", "command",
)  # fmt: skip
_OF_THE_IMAGES = ("data_dir", "image_size", "limit", "strict")
_OPTIONS = (*_OF_THE_IMAGES, "task", "resize", "device", "precision", "threads", "workers", "callback")


def fit(
    data: Any,
    *,
    budget: str | float = "30m",
    max_params: str | int | None = None,
    max_madds: str | int | None = None,
    max_latency: str | float | None = None,
    compare: int | None = None,
    test: Any = None,
    start_from: Path | str | None = None,
    plan: FitPlan | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    target: Path | str | None = None,
    out: Path | str | None = None,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Callable[[str], None] | None = None,
    progress: bool | None = None,
    **options: Any,
) -> FitResult:
    """Find a network for these images: search a cell, select among it and known networks, train the best, test it.

    ``data`` is that of :func:`archgrad.search`, or the path of a folder of images. ``task`` among the options says what
    the network predicts: "classification", "multilabel", "regression", or an object.
    ``budget`` is the time for everything, such as "30m"; a number is minutes. The network keeps the limits
    ``max_params`` ("1M"), ``max_madds`` ("50M") and ``max_latency`` ("5ms" for one image on this machine). ``test`` has
    the test images, by default those of the data's source, or a fifth of the images; they decide nothing. With
    ``compare`` N, after the budget, the model and its best rival of the other kind train with N seeds each.
    ``start_from`` is the folder of a trained model: its network competes too, and begins with its weights.
    ``plan`` fixes what is otherwise chosen by time. ``settings`` are knobs such as ``{"weights.lr": 0.1,
    "augmentation.flip": False}`` of the trainings, or of the search (``"arch_optimizer.lr"``). ``options`` are
    ``task``, ``data_dir``, ``image_size``, ``resize``, ``strict``, ``limit``, ``device``, ``precision``,
    ``threads``, ``workers`` and ``callback`` of :func:`archgrad.search`. ``tell`` is told what happens, in sentences.
    In a terminal or a notebook the fit shows its progress; ``progress`` switches that on or off.

    ``out`` is the folder for everything: the search, the trainings, ``model/`` and ``report.html``.
    :func:`archgrad.resume` continues there. ``target`` is a folder, or a file that ends with .onnx or .pt2, where
    the model is written too.
    """
    request = {
        "data": data, "test": test, "budget": budget, "max_params": max_params, "max_madds": max_madds,
        "max_latency": max_latency, "compare": compare, "settings": settings, "seed": seed, "target": target,
        "start_from": start_from, **options,
    }  # fmt: skip
    check_value("plan", plan, FitPlan | None)
    folder = FitFolder(None if out is None else as_path("out", out))
    with closing(Display(progress, shows_cell=False)) as display:
        return run_fit(
            request, folder, plan, interruptible=interruptible, callbacks=(*callbacks, *display.callbacks),
            tell=tell or display.tell, on_clock=display.count_down,
        )  # fmt: skip


def run_fit(
    request: Mapping[str, Any],
    folder: FitFolder,
    plan: FitPlan | None = None,
    *,
    interruptible: bool = False,
    callbacks: Sequence[Callback] = (),
    tell: Callable[[str], None] = lambda text: None,
    on_clock: Callable[[Clock], None] = lambda clock: None,
) -> FitResult:
    """Begin a fit by the arguments of :func:`fit` in its folder, or continue the one that is there.

    ``on_clock`` gets the clock of the whole fit.
    """
    clock = Clock(read_duration("budget", str(request["budget"])), folder.spent)
    on_clock(clock)
    limits = Limits.of(*(request.get(f"max_{name}") for name in ("params", "madds", "latency")))
    check_value("compare", request.get("compare"), Count | None)
    options, target = _options(request), _checked_target(request.get("target"))
    plan = folder.plan or plan or FitPlan()
    with run_alone(str(options.get("device", "cpu")), folder.path), own_threads(options.get("threads")):
        folder.check()
        start_from = _checked_start(request.get("start_from"))
        config = SearchConfig(data=as_data(request["data"]), seed=request.get("seed", 0), **options)
        images = load_images(config, request.get("test"), clock.seconds, plan)
        how = {name: one for name, one in options.items() if name not in _OF_THE_IMAGES}
        running = FitSteps(
            plan, images, clock, limits, config.seed, how, _settings(request.get("settings")), folder, tell,
            interruptible, callbacks, start_from=start_from,
        )  # fmt: skip
        running.check()
        folder.begin(request, plan, images)
        return _written(running.run(request.get("compare")), config, target, folder)


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration among the arguments; reject unknown ones."""
    for name in request:
        if name not in (*_ARGUMENTS, *_OPTIONS):
            raise unknown("option of fit:", name, _OPTIONS)
    return {name: one for name in _OPTIONS if (one := request.get(name)) is not None}


def _settings(given: Any) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise UserError(f"settings is {shortened(given)}; it must be a dictionary of knobs by path.")
    return given or {}


def _written(result: FitResult, config: SearchConfig, target: Path | None, folder: FitFolder) -> FitResult:
    """Write the model, the report, the result, and what makes the folder a run directory like that of a training."""
    if processes().rank:
        return result
    if folder.path is not None:
        _describe(result, config, folder.path)
        result.model.save(folder.path / "model")
        folder.save(result=result.to_dict(), tests=describe_test(result))
        write_text(folder.path / REPORT, to_html(page_of_fit(folder.path)))
    if target is None:
        return result
    try:
        file = export_model(result.model, target).file if target.suffix else result.model.save(target)
    except UserError as error:
        kept = "" if folder.path is None else f" The model itself is in {shown_path(folder.path / 'model')}."
        raise UserError(f"{error}{kept}") from error
    return replace(result, files=(str(file),))


def _describe(result: FitResult, config: SearchConfig, home: Path) -> None:
    """Write ``config.toml``, the records and the genotype of the last training, with the data by its name."""
    one, final = result.candidate, read_run_config(home / "final")
    images = {name: getattr(config, name) for name in ("data_dir", "resize", "limit", "strict", "seed", "task")}
    data = config.data if isinstance(config.data, str) else result.tests
    training = one.training(data, Length(result.selection.final.epochs, 1), {**images, "image_size": one.image_size})
    named = named_config(resolve(training.config, standard_callbacks=False), result.tests)
    kept = {name: getattr(final, name) for name in ("settings", "precision", "threads", "callback")}
    named = replace(named, **kept)
    write_text(home / "config.toml", config_to_toml(named))
    for name in ("metrics.jsonl", "genotype.json"):
        shutil.copyfile(home / "final" / name, home / name)


def _checked_start(given: Any) -> str | None:
    """Return the folder of the model to start from; reject one that does not exist."""
    return None if given is None else str(existing_path(as_path("start_from", given), "model").resolve())


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
