"""Compares differences of gradients with exact derivatives, once in a search."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch

from archgrad.autodiff.difference_check import LEAST_COSINE, NoisyVectors, agreement, difference_products
from archgrad.autodiff.products import ProductKind, products_of
from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import Vector
from archgrad.data import Batch
from archgrad.distributed.processes import processes
from archgrad.distributed.shard import Shard
from archgrad.errors import UserError
from archgrad.hypergradients import Batches, EvaluationPoint
from archgrad.loop.loaders import StepBatches
from archgrad.loop.state import PRODUCTS, SearchState
from archgrad.loop.steps import Stepper, added_gradient
from archgrad.regularizers import Regularizer

__all__ = ["compare_products", "compare_regularizers"]

Found = TypeVar("Found")

_log = logging.getLogger("archgrad")

_STRETCH = 3.0
"""How much longer the step of the second difference is."""

_IMAGES = 32
"""Enough images for a comparison, and few enough that an exact product needs no more memory than a step."""
_SHARE, _FEWEST = 8, 2
"""With recomputed cells, a step needs much less: then an eighth of a batch is compared, and at least two images."""


def compare_products(
    stepper: Stepper, state: SearchState, batches: StepBatches, kind: ProductKind, recomputed: bool = False
) -> None:
    """Record in the state whether differences of this kind agree with exact products, if not yet recorded.

    ``recomputed`` cells keep no activations, but exact products do, so fewer images are compared.
    """
    key = f"{PRODUCTS} {kind}"
    if key in state.trusted:
        return
    inner, outer = Batches([_few(batches.inner(0), recomputed)]), _few(batches.outer(), recomputed)
    plain = stepper.uncompiled()

    def at(measure: Callable[[EvaluationPoint], Found]) -> Found:
        with plain.bilevel_step(state).at(state.alpha, inner, outer) as point:
            return measure(point)

    def differences_at(point: EvaluationPoint, stretch: float) -> NoisyVectors:
        _, v = point.outer()
        return difference_products(point.inner(), point.weights, point.alpha, v, kind, stretch)

    def exact_at(point: EvaluationPoint) -> tuple[Vector, ...]:
        _, v = point.outer()
        return products_of("exact", point.inner(), point.weights, point.alpha).both(v)

    def differences(stretch: float = 1.0) -> Any:
        return _attempt(lambda: at(partial(differences_at, stretch=stretch)))

    _note(state, key, "the architecture gradient", differences(), _attempt(lambda: at(exact_at)), differences)


def compare_regularizers(stepper: Stepper, state: SearchState, batch: Batch, recomputed: bool = False) -> None:
    """Record the same for what each regularizer adds to the weights' gradient, once it adds anything."""
    plain, few = stepper.uncompiled(), _few(batch, recomputed)
    for part in stepper.method.regularizers:
        name = type(part).__name__
        if not part.freezes_kinks or name in state.trusted:
            continue
        differences = _attempt(partial(_added, plain, part, state, few))
        if differences is not None:  # a term of weight 0 adds nothing
            _note(state, name, name, differences, _attempt(partial(_added, plain, part.exact(), state, few)))


def _added(stepper: Stepper, part: Regularizer, state: SearchState, batch: Batch) -> tuple[Weights] | None:
    found = added_gradient(stepper.losses, part, state, batch, stepper.unperturbed(state))
    return (found,) if found else None


def _few(batch: Batch, recomputed: bool) -> Batch:
    """Return a small batch: its first images, or the first ones of the share of each process."""
    (rank, count), rows = processes(), len(batch.targets)
    few = min(rows, _IMAGES, max(rows // _SHARE, _FEWEST) if recomputed else _IMAGES)
    chosen = [
        batch.targets[whole.start :][: part.size]
        for whole, part in ((Shard.of(rows, one, count), Shard.of(few, one, count)) for one in range(count))
    ]
    inputs = batch.inputs[: Shard.of(few, rank, count).size]
    return Batch(inputs, chosen[0] if count == 1 else torch.cat(chosen))


def _attempt(compute: Callable[[], Found]) -> Found | Exception:
    """Return the result, or the error: kinks that change, or an operation without a derivative."""
    try:
        return compute()
    except (UserError, RuntimeError, NotImplementedError) as error:
        return error


def _note(
    state: SearchState, key: str, what: str, differences: Any, exact: Any, again: Callable[[float], Any] | None = None
) -> None:
    """Trust differences that agree with exact derivatives, or for which there are no exact derivatives.

    If they disagree, but differences over steps of two lengths agree, the exact derivatives are wrong: an operation's
    own backward pass cannot be differentiated.
    """
    if isinstance(differences, Exception) and isinstance(exact, Exception):
        raise UserError(
            f"neither differences nor exact derivatives can be computed for {what} ({_reason(differences)}); use "
            f"another method, or operations that PyTorch can differentiate."
        ) from differences
    if isinstance(exact, Exception):
        state.trusted[key] = True
        _log.warning(
            "differences of gradients for %s could not be compared with exact ones (%s); the search trusts them.",
            what, _reason(exact),
        )  # fmt: skip
        return
    cosine = 0.0 if isinstance(differences, Exception) else agreement(differences, exact)
    state.trusted[key] = cosine >= LEAST_COSINE
    if state.trusted[key]:
        return
    if again is not None and _alike(differences, again(_STRETCH)):
        state.trusted[key] = True
        _log.warning(
            "an operation's own backward pass cannot be differentiated, so exact derivatives of %s are wrong "
            "(cosine %.3f to differences); the search trusts differences.",
            what, cosine,
        )  # fmt: skip
        return
    _log.warning(
        "differences of gradients mislead %s here: their cosine to exact ones is %.3f and should be at least %.2f, "
        "because an operation has kinks that cannot be frozen; the search continues with exact derivatives, which take "
        "longer.",
        what, cosine, LEAST_COSINE,
    )  # fmt: skip


def _alike(differences: Any, others: Any) -> bool:
    """Tell whether differences over steps of two lengths agree; across kinks they do not."""
    if isinstance(differences, Exception) or isinstance(others, Exception):
        return False
    return agreement(differences, others.vectors) >= LEAST_COSINE


def _reason(error: Exception) -> str:
    """Return the first sentence of an error, cut to 120 characters."""
    return str(error).splitlines()[0].split(". ")[0][:120]
