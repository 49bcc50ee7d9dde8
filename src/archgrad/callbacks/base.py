"""The base class of callbacks: they watch a search, record measures, and may ask for a stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from torch import Tensor

from archgrad.arch_optimizers import ArchOptimizer
from archgrad.autodiff.products import ProductKind
from archgrad.callbacks.search import Record, SearchView
from archgrad.diagnostics import Snapshot
from archgrad.discretizers import Discretizer
from archgrad.hypergradients import EvaluationPoint
from archgrad.parts.fields import Count, Range, check_fields
from archgrad.relaxations import Relaxation
from archgrad.spaces import DecisionBlock, SearchSpace

__all__ = ["Callback", "DecisionProgress", "LanczosSteps", "Measures", "StageStart", "Stop"]

LanczosSteps = Annotated[int, Range(1, 1000)]
"""The number of Hessian products in one measurement."""

Measures = Mapping[str, float | str]
"""Numbers or words by name, for the record of an epoch."""


@dataclass(frozen=True)
class StageStart:
    """Stage ``number`` of ``stages``, counted from 1, and the space that it searches."""

    number: int
    stages: int
    space: SearchSpace


@dataclass(frozen=True)
class DecisionProgress:
    """Decision ``done`` of ``total`` of a slow discretizer; ``what`` says which."""

    what: str
    done: int
    total: int


class Stop(NamedTuple):
    """The epoch whose architecture is returned, counted from 1, and a sentence that says why."""

    epoch: int
    reason: str


class Callback:
    """Override what you need; every method does nothing by default.

    The loop computes mixture gradients and points only for callbacks that override :meth:`measure_gradients` and
    :meth:`measure_point`. A search has at most one callback of each ``kind``.
    ``requires`` names the kinds that must measure before it. Set ``only_writes`` for a callback that only writes or
    prints: of several processes, only the first calls it. All other callbacks are called in every process. Callbacks
    never change the bits of weights and α, and a resumed search measures at the same steps.

    >>> class Patience(Callback):
    ...     def stop(self, search):
    ...         return Stop(search.epoch, "that is enough.") if search.epoch == 3 else None
    """

    kind: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    only_writes: ClassVar[bool] = False

    every: Count = 64
    """The number of steps between two measurements.

    Mixture gradients are an exception: a step that computes them anyway always measures them. That is every step that
    moves the architecture with a hypergradient of order 1. In all other steps ``every`` holds for them too.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def overrides(cls, name: str) -> bool:
        """Tell whether it overrides this method, such as ``measure_point``."""
        return getattr(cls, name) is not getattr(Callback, name)

    @property
    def difference(self) -> ProductKind | None:
        """The kind of gradient differences that it takes at a point, None if it takes none."""
        return None

    @property
    def decays(self) -> Mapping[str, float]:
        """The measures inside an epoch that are exponential averages since the first step, each with its decay.

        After n steps the average is Σ decayⁿ⁻ⁱ·xᵢ / Σ decayⁿ⁻ⁱ over the steps i that were measured. All other measures
        are means of their epoch.
        """
        return {}

    def due(self, index: int, steps: int) -> bool:
        """Tell whether to measure the point before step ``index``; an epoch has ``steps`` steps."""
        return index % self.every == 0

    def check(self, relaxation: Relaxation, arch_optimizer: ArchOptimizer, discretizer: Discretizer) -> None:
        """Raise a UserError, before any training, if the callback does not fit a method of these parts."""
        return

    def on_stage_start(self, stage: StageStart) -> None:
        """React to the start of a stage of a progressive search; the search of that stage follows."""

    def on_search_start(self, search: SearchView) -> None:
        """React to the start; after a resume, this need not be the first step of the search."""

    def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
        """React to a step; ``means`` are losses, metrics and measures, averaged over the epoch so far."""

    def on_decision(self, search: SearchView, decision: DecisionProgress) -> None:
        """React to a decision of a slow discretizer."""

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """React to the record of an epoch; the search is now at the beginning of the next."""

    def on_go_back(self, search: SearchView) -> None:
        """React to a return to an earlier epoch."""

    def on_save(self, search: SearchView) -> None:
        """Save what must not be lost: the process may end now."""

    def on_search_end(self, search: SearchView) -> None:
        """React to the end, after the last epoch or after an early stop."""

    def measure_gradients(self, blocks: Sequence[DecisionBlock], gradients: Mapping[str, Tensor]) -> Measures:
        """Measure dL2/dp of every cell ``{block: [cells, rows, choices]}``; the record gets the epoch's mean.

        It is the method's own hypergradient of each cell's mixture, see :func:`~archgrad.diagnostics.layer_gradients`.
        """
        return {}

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Measure at the weights and α before a step that is due; the record gets the epoch's mean."""
        return {}

    def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> Measures:
        """Measure at the end of every epoch; ``search.history[-1]`` is its record so far."""
        return {}

    def measure_end(self, snapshot: Snapshot) -> Measures:
        """Measure the architecture that the search returns, once at its end, for the last record."""
        return {}

    def stop(self, search: SearchView) -> Stop | None:
        """Ask to end the search after the epoch just recorded."""
        return None

    def keep_state(self, search: SearchView) -> bool:
        """Ask, between two epochs, to save the present state for :meth:`go_back`."""
        return False

    def go_back(self, search: SearchView) -> str | None:
        """Ask, between two epochs, to go back to the saved state, once; return how the search continues from there."""
        return None
