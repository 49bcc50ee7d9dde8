"""A trial of the task's loss and metrics on one batch, before anything is trained."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from archgrad.data import Loader
from archgrad.errors import ArchgradError, UserError, shortened
from archgrad.loop.part_checks import check_loss
from archgrad.system import random_streams
from archgrad.tasks import BaseTask, align

__all__ = ["check_task"]


def check_task(task: BaseTask, outputs: int, loader: Loader) -> None:
    """Raise a UserError if the loss or a metric does not suit outputs and targets; their numbers are arbitrary.

    The outputs are drawn from a normal distribution, so that no network is needed.
    """
    # The caller may record no gradients; a search records its own.
    with torch.inference_mode(False), torch.enable_grad(), random_streams.SavedRandomState(loader.device).replay():
        targets = loader.data.targets[loader.indices[: loader.batch_size]].to(loader.device)
        draws = torch.randn(len(targets), outputs, generator=random_streams.generator(0, "task"))
        _check_task(task, draws.to(loader.device).requires_grad_(), targets)


def _check_task(task: BaseTask, drawn: Tensor, targets: Tensor) -> None:
    what = task.loss_name
    try:
        outputs = align(drawn, targets)
        loss = task.loss(outputs, targets)
        check_loss(task, loss, outputs)
        (gradient,) = torch.autograd.grad(loss, drawn, allow_unused=True)
        with torch.no_grad():
            for name, metric in task.all_metrics.items():
                what = f"the metric {name!r}"
                metric.of_batch(outputs, targets)
            what = "the baseline of the task"
            task.chance(targets)
    except ArchgradError:
        raise
    except Exception as error:
        shapes = f"outputs {list(drawn.shape)} and targets {list(targets.shape)}"
        raise UserError(
            f"{what} fails for {shapes}: {type(error).__name__}: {shortened(str(error), 200)}; correct it."
        ) from error
    if gradient is None:
        raise UserError(
            f"{task.loss_name} returned a number that does not depend on the outputs, so the weights cannot learn; "
            f"compute it from the outputs."
        )
    if not math.isfinite(loss.item()):
        raise UserError(f"{task.loss_name} is {loss.item()} for normally distributed outputs; it must be finite.")
