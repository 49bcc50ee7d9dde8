"""Batch norms that wait for others: all that wait at the same time share one collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from archgrad.distributed.batch_norm import joint_batch_norms

__all__ = ["PendingNorm", "after_norm", "completed"]


@dataclass(frozen=True)
class PendingNorm:
    """``then(w·x̂)``, where x̂ is ``x [N, C, H, W]`` normalized by the joint batch; nothing is computed yet."""

    x: Tensor
    weight: Tensor | None
    eps: float
    then: Callable[[Tensor], Any] = lambda y: y


def after_norm(term: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``function(term)``, or if the term is pending, what will be that."""
    if isinstance(term, PendingNorm):
        return PendingNorm(term.x, term.weight, term.eps, lambda y: after_norm(term.then(y), function))
    return function(term)


def completed(terms: Sequence[Any]) -> list[Any]:
    """Return the terms with all batch norms done: one collective for those of one shape, until none is pending."""
    found = list(terms)
    while any(isinstance(term, PendingNorm) for term in found):
        alike: dict[Any, list[int]] = {}
        for place, term in enumerate(found):
            if isinstance(term, PendingNorm):
                alike.setdefault((term.x.shape, term.x.dtype, term.eps), []).append(place)
        for (_, _, eps), places in alike.items():
            norms = [found[place] for place in places]
            outputs = joint_batch_norms([norm.x for norm in norms], [norm.weight for norm in norms], eps)[0]
            for place, norm, output in zip(places, norms, outputs, strict=True):
                found[place] = norm.then(output)
    return found
