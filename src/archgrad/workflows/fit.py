"""The whole way from images to a model: search, select, train, test, and compare with a residual network."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from archgrad.callbacks import Callback
from archgrad.config import SearchConfig
from archgrad.data import as_data
from archgrad.distributed.processes import joined
from archgrad.errors import unknown
from archgrad.loop.global_state import take_turns
from archgrad.parts.fields import check_value
from archgrad.system.amounts import read_amount, read_duration, read_seconds
from archgrad.system.files import as_path
from archgrad.workflows.continuing import continued_in
from archgrad.workflows.fit_folder import FitFolder
from archgrad.workflows.fit_images import load_images
from archgrad.workflows.fit_plan import FitPlan, check_limits, plan_fit, shape_of
from archgrad.workflows.fit_result import FitResult
from archgrad.workflows.fit_steps import FitSteps
from archgrad.workflows.limits import Limits

__all__ = ["FitResult", "fit"]

_OF_THE_IMAGES = ("data_dir", "image_size", "limit")
_OPTIONS = (*_OF_THE_IMAGES, "fit", "device", "precision", "workers")


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
    tell: Callable[[str], None] = lambda text: None,
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
    started, seconds = time.monotonic(), read_duration("budget", str(budget))
    limits = _limits(max_params, max_madds, max_latency)
    check_value("plan", plan, FitPlan | None)
    for name in options:
        if name not in _OPTIONS:
            raise unknown("option of fit:", name, _OPTIONS)
    home = None if out is None else as_path("out", out)
    with take_turns(), joined(str(options.get("device", "cpu"))), continued_in(home):
        folder = FitFolder(home, resume)
        config = SearchConfig(data=as_data(data), seed=seed, **options)
        images, tests = load_images(config, test, seconds, folder.plan or plan)
        left = {name: one for name, one in options.items() if name not in _OF_THE_IMAGES}
        plan = folder.plan or plan or plan_fit(images, seconds, left, tell)
        if not resume:
            check_limits(limits, plan, shape_of(images))
        folder.begin(plan, images, tests, request, time.monotonic() - started)
        steps = FitSteps(
            plan, images, tests, seconds, started, limits, seed, left, folder, tell, interruptible, tuple(callbacks)
        )  # fmt: skip
        tell(steps.announcement())
        selection = steps.select(steps.search())
        result = steps.test(selection, steps.train_baseline(selection))
        folder.write(result)
        return result


def _limits(max_params: object, max_madds: object, max_latency: object) -> Limits:
    """Read limits as people write them; None: no limit."""
    return Limits(
        None if max_params is None else read_amount("max_params", str(max_params)),
        None if max_madds is None else read_amount("max_madds", str(max_madds)),
        None if max_latency is None else read_seconds("max_latency", str(max_latency)),
    )
