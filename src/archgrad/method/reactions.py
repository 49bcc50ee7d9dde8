"""Reactions of a search to a collapse, and which methods and spaces allow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from archgrad.errors import UserError
from archgrad.parts.fields import check_value

if TYPE_CHECKING:
    from archgrad.callbacks import Callback
    from archgrad.diagnostics import Diagnosis
    from archgrad.diagnostics.records import Record
    from archgrad.method.bundle import Method
    from archgrad.spaces import SearchSpace

__all__ = ["Reaction", "check_reaction", "cures_of", "diagnosed", "doctors", "switched"]

Reaction = Literal["warn", "stop", "switch", "ignore"]
"""What a search may do when it collapses."""


def check_reaction(reaction: str, method: Method, space: SearchSpace) -> None:
    """Raise a UserError, before any training, if a search cannot react to a collapse in this way."""
    from archgrad.spaces import SKIP

    check_value("on_collapse", reaction, Reaction)
    if reaction in ("stop", "switch") and not method.arch_optimizer.moves:
        raise UserError(
            f"on_collapse is {reaction!r}, but {type(method.arch_optimizer).__name__} never moves the architecture, "
            f"which therefore cannot collapse; leave it at 'warn'."
        )
    if reaction in ("stop", "switch") and not space.offers(SKIP, "none"):
        raise UserError(
            f"on_collapse is {reaction!r}, but the space {space.name!r} offers neither skip connections nor `none` to "
            f"collapse into; leave it at 'warn'."
        )
    if reaction == "stop" and method.progressive is not None:
        raise UserError(
            "on_collapse is 'stop', but each stage of a progressive search drops choices by its last architecture, and "
            "a collapsed one would drop the wrong ones; choose 'warn' or 'switch', or leave progressive out."
        )
    if reaction == "stop" and method.discretizer.once:
        raise UserError(
            f"on_collapse is 'stop', which returns the architecture of an earlier epoch, but "
            f"{type(method.discretizer).__name__} derives only one, at the end; choose 'warn' or 'switch', or use "
            f"discretizers.Argmax()."
        )
    if reaction == "switch":
        try:
            switched(method).check(space)
        except UserError as error:
            raise UserError(
                f"on_collapse is 'switch', which adds LayerAlignment to the method, but this one cannot take it: "
                f"{error} Otherwise choose on_collapse 'stop' or 'warn'."
            ) from error


def switched(method: Method) -> Method:
    """Return the method that a search switches to: the same with layer alignment.

    >>> from archgrad import recipes
    >>> [type(part).__name__ for part in switched(recipes.darts()).regularizers]
    ['LayerAlignment']
    """
    from archgrad.regularizers import LayerAlignment

    if any(part.aligns_cells for part in method.regularizers):
        raise UserError("it has LayerAlignment already.")
    return replace(method, regularizers=(*method.regularizers, LayerAlignment()))


def cures_of(method: Method) -> tuple[str, ...]:
    """Return the usual cures of a collapse that this method lacks.

    >>> from archgrad import recipes
    >>> cures_of(recipes.lambda_darts()), cures_of(recipes.gaea())
    (('GAEA (--method gaea)',), ('λ-DARTS (--regularizer +layer-alignment)',))
    """
    from archgrad.diagnostics.diagnosis import CURES

    alignment, geometry = CURES
    aligned = any(part.aligns_cells for part in method.regularizers)
    geometric = method.arch_optimizer.domain == "simplex"
    return (*(() if aligned else (alignment,)), *(() if geometric else (geometry,)))


def diagnosed(records: Sequence[Record], epochs: int, method: Method) -> Diagnosis:
    """Diagnose a search of so many epochs by its records; of a search in stages, by those of the last one.

    The advice names cures that the method lacks. After a switch, that is the method switched to.
    """
    from archgrad.diagnostics import diagnose
    from archgrad.diagnostics.records import of_last_stage

    own = of_last_stage(records)
    if any("switched_from" in record for record in own):
        method = switched(method)
    return diagnose(own, max(epochs, len(own)), cures=cures_of(method))


def doctors(reaction: Reaction, method: Method) -> tuple[Callback, ...]:
    """Return the callback that detects a collapse and reacts to it; none if the reaction is ``ignore``."""
    from archgrad.callbacks import Doctor

    if reaction == "ignore":
        return ()
    after = cures_of(switched(method)) if reaction == "switch" else ()
    return (Doctor(reaction, cures_of(method), after),)
