"""Comparing, once in a search, its differences of gradients with exact derivatives."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from archgrad.data import Batch
from archgrad.errors import UserError
from archgrad.hypergradients import LEAST_COSINE, Batches, agreement, vector_agreement
from archgrad.hypergradients.products import Kind
from archgrad.loop.state import PRODUCTS, SearchState
from archgrad.loop.steps import Drawn, Stepper
from archgrad.regularizers import Regularizer

__all__ = ["compare_products", "compare_regularizers"]

_log = logging.getLogger("archgrad")

_IMAGES = 32
"""As many as tell, and few enough for an exact product to need no more memory than a step."""


def compare_products(stepper: Stepper, state: SearchState, batches: Drawn, kind: Kind) -> None:
    """Note in the state whether differences of this kind agree with exact products, unless it is noted already."""
    if PRODUCTS not in state.trusted:
        plain = replace(stepper, forward=stepper.plain)
        _note(state, PRODUCTS, "the architecture gradient", partial(_of_products, plain, state, batches, kind))


def compare_regularizers(stepper: Stepper, state: SearchState, batch: Batch) -> None:
    """Note the same of what each regulariser adds to the weights' gradient, as soon as it adds anything."""
    plain = replace(stepper, forward=stepper.plain)
    for part in stepper.method.regularizers:
        name = type(part).__name__
        if part.freezes_kinks and name not in state.trusted:
            _note(state, name, name, partial(_of_regularizer, plain, part, state, _few(batch)))


def _of_products(stepper: Stepper, state: SearchState, batches: Drawn, kind: Kind) -> float:
    inner, outer = _few(batches.inner(0)), _few(batches.outer())
    with stepper.moment(state).at(state.alpha, Batches([inner]), outer) as point:
        return agreement(point, kind)


def _of_regularizer(stepper: Stepper, part: Regularizer, state: SearchState, batch: Batch) -> float | None:
    relaxed = stepper.relaxed(state)
    exact, found = (stepper.added_gradient(one, state, relaxed, batch) for one in (part.exact(), part))
    return None if exact is None or found is None else vector_agreement(found, exact)


def _few(batch: Batch) -> Batch:
    return Batch(batch.images[:_IMAGES], batch.labels[:_IMAGES])


def _note(state: SearchState, key: str, what: str, measure: Callable[[], float | None]) -> None:
    try:
        found = measure()
    except UserError:  # the kinks are not the same ones from one evaluation to the next
        found = 0.0
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        _log.warning(
            "differences of gradients for %s could not be compared with exact ones (%s); the search trusts them.",
            what, reason,
        )  # fmt: skip
        found = 1.0
    if found is None and not state.index:  # nothing is added in the first step of a search
        return
    state.trusted[key] = found is None or found >= LEAST_COSINE
    if not state.trusted[key]:
        _log.warning(
            "differences of gradients mislead %s here: their cosine to exact ones is %.3f and should be at least %.2f, "
            "because an operation has kinks that cannot be frozen; the search goes on with exact derivatives, which "
            "take longer.",
            what, found, LEAST_COSINE,
        )  # fmt: skip
