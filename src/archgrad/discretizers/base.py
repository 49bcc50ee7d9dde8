"""The family of discretizers: from probabilities to a genotype."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture, Probabilities, check_tensors
from archgrad.errors import UserError
from archgrad.parts.fields import check_fields, check_value
from archgrad.relaxations.base import shapes_of
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.tasks import ACCURACY, MetricInfo

__all__ = [
    "Discretizer",
    "SupernetEvaluation",
    "Ties",
    "Tune",
    "Tuning",
    "check_probabilities",
    "count_ties",
    "edge_strengths",
    "margins",
    "measurer",
    "options_with",
    "strongest_choices",
]


@dataclass(frozen=True)
class Tuning:
    """A continuation of the search, with some rows decided, at a constant learning rate.

    ``decided`` ``{block: [rows]}`` marks the rows that are fixed at ``weights`` ``{block: [rows, choices]}``; α of the
    other rows keeps moving. ``rate`` is the fraction of the initial learning rate.
    """

    weights: Probabilities
    decided: Mapping[str, Tensor]
    epochs: int
    rate: float


Tune = Callable[[Tuning], Probabilities]
"""Continue a search; return its probabilities ``{block: [rows, choices]}`` afterwards."""


@dataclass(frozen=True)
class SupernetEvaluation:
    """What a discretizer may ask of the search: the metric of an architecture with shared weights, and more training.

    ``metric(mixture, batch)`` returns the main metric of the task on a numbered batch, such as accuracy in per cent;
    :meth:`score` returns it so that higher is always better. The mixture ``{block: [cells, rows, choices]}`` covers all
    searched blocks; for a discrete architecture it is one-hot. The images are those that train the architecture,
    without augmentation; a bilevel search does not train weights on them. After ``batches`` batches the same images
    come again, in another order. A discretizer draws from ``generator``.

    ``tune`` continues the search; later metrics are those of the continued search. It is None where training is not
    possible. ``report`` receives each decision, the number of decisions so far, and their total. ``info`` has the name
    and the direction of the metric.
    """

    metric: Callable[[Mixture, int], float]
    generator: torch.Generator
    batches: int = 1
    tune: Tune | None = None
    report: Callable[[str, int, int], None] = lambda what, done, total: None
    info: MetricInfo = ACCURACY

    def mean_score(self, mixture: Mixture, batches: int) -> float:
        """Return the mean score of the first batches."""
        return sum(self.score(mixture, batch) for batch in range(batches)) / batches

    def score(self, mixture: Mixture, batch: int) -> float:
        """Return the metric, or its negative where lower is better; reject NaN, which cannot be compared."""
        value = self.metric(mixture, batch)
        if math.isnan(value):
            raise UserError(
                f"the metric {self.info.name!r} of an architecture is NaN on batch {batch}, so architectures cannot be "
                f"compared; give larger batches or another main metric."
            )
        return value if self.info.higher_is_better else -value


class Ties(NamedTuple):
    """How many rows tie, ``of`` all rows with a choice.

    In a row that ties, the least likely picked choice and the best one left out are exactly as likely.
    """

    rows: int = 0
    of: int = 0

    @property
    def everywhere(self) -> bool:
        """Whether every row ties, as with the even mixture of a warm-up."""
        return self.rows > 0 and self.rows == self.of

    def __str__(self) -> str:
        return f"{self.rows} of {self.of} choices tie exactly"


class Discretizer(ABC):
    """Probabilities ``{block: [rows, choices]}`` of all searched blocks → genotype.

    A discretizer that derives ``once`` does so only at the end of a search; epochs before record :meth:`interim`. One
    that ``measures`` decides by the metric of architectures, so entropy does not show how decided it is.
    """

    once: ClassVar[bool] = False
    measures: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self, "discretizer.{}")

    @property
    def needs_simplex(self) -> bool:
        """Whether the probabilities of each row must sum to one; most only compare them."""
        return False

    def check(self, space: SearchSpace) -> None:
        """Raise a UserError, before any training, if it cannot derive genotypes of this space."""
        return

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Count the exact ties that the order of choices decides, in the genotype of an epoch or of the whole search.

        The default is none; discretizers that use probabilities alone count them.
        """
        return Ties()

    @abstractmethod
    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive the genotype; a discretizer that measures architectures uses ``evaluation``."""

    def interim(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive the genotype of an epoch before the last; the same as :meth:`select` by default."""
        return self.select(space, probabilities, evaluation)


def check_probabilities(space: SearchSpace, probabilities: Probabilities) -> None:
    """Raise a UserError unless there are finite probabilities for all blocks of the space."""
    check_value("space", space, SearchSpace)
    check_tensors("probabilities", probabilities, shapes_of(space.blocks))
    for block in space.blocks:
        if not bool(probabilities[block.name].isfinite().all()):
            raise UserError(f"probabilities[{block.name!r}] has NaN or infinite entries; all must be finite.")


def measurer(
    rule: Discretizer, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None
) -> SupernetEvaluation:
    """Return the evaluation that a discretizer measures by; raise a UserError if there is none, or it does not fit."""
    if evaluation is None:
        raise UserError(
            f"{type(rule).__name__} measures architectures with a supernet, but got no evaluation; give select() an "
            f"evaluation, or use discretizers.Argmax(), which needs none."
        )
    check_probabilities(space, probabilities)
    check_value("evaluation", evaluation, SupernetEvaluation)
    return evaluation


def strongest_choices(
    block: DecisionBlock, probabilities: Tensor, keep: int | None, edges: Sequence[float] | None = None
) -> list[tuple[int, int]]:
    """Return (row, choice) of the best allowed choices of the ``keep`` strongest rows at each target.

    The strength of a row is that of its best choice, times its edge weight if ``edges`` is given (PC-DARTS, Xu et al.,
    2020, Section 3.3). The first choice and the first row win a tie, so the result is deterministic.
    """
    best = [_best_choices(block, index, weights) for index, weights in enumerate(probabilities.tolist())]
    strength = [row[0][1] * (1.0 if edges is None else edges[index]) for index, row in enumerate(best)]
    kept: list[int] = []
    for target in block.targets:
        rows = block.rows_into(target)
        rows.sort(key=lambda index: -strength[index])
        kept += sorted(rows[:keep])
    return [(index, choice) for index in kept for choice in sorted(choice for choice, _ in best[index])]


def options_with(space: SearchSpace, probabilities: Mapping[str, Tensor]) -> SupernetOptions:
    """Return the options of a supernet with these probabilities: with edge weights if these are among them."""
    return SupernetOptions(edge_weights=any(block.has_edge_weights(probabilities) for block in space.blocks))


def edge_strengths(block: DecisionBlock, probabilities: Mapping[str, Tensor]) -> Sequence[float] | None:
    """Return the edge weight of each row of a block; None without edge weights."""
    if not block.has_edge_weights(probabilities):
        return None
    table = probabilities[block.edges.name].tolist()
    return [table[row][choice] for row, choice in block.edge_places]


def _best_choices(block: DecisionBlock, row: int, weights: list[float]) -> list[tuple[int, float]]:
    """Return the (choice, weight) pairs that a row picks, strongest first."""
    allowed = [(choice, weights[choice]) for choice in block.allowed(row)]
    return sorted(allowed, key=lambda pair: -pair[1])[: block.rows[row].picks]


def count_ties(space: SearchSpace, probabilities: Probabilities) -> Ties:
    """Count the rows of a space that tie."""
    ahead = margins(space, probabilities)
    return Ties(sum(lead == 0 for lead in ahead), len(ahead))


def margins(space: SearchSpace, probabilities: Probabilities) -> list[float]:
    """Return each row's margin: the probability of its least likely picked choice minus that of the best one left out.

    Choices that a genotype may not contain, such as ``none`` in the DARTS space, do not count; nor do rows without any
    weight at a node that has enough others to keep.
    """
    found = []
    for block in space.blocks:
        ranks = [_ranked(block, row, weights) for row, weights in enumerate(probabilities[block.name].tolist())]
        for row, ranked in zip(block.rows, ranks, strict=True):
            if len(ranked) > row.picks and (ranked[0] or not _is_removed(block, row.target, ranks)):
                found.append(ranked[row.picks - 1] - ranked[row.picks])
    return found


def _is_removed(block: DecisionBlock, target: int, ranks: Sequence[Sequence[float]]) -> bool:
    """Tell whether a node can do without its rows that have no weight."""
    others = sum(row.target == target and ranked[0] > 0 for row, ranked in zip(block.rows, ranks, strict=True))
    return block.keep is not None and others >= block.keep


def _ranked(block: DecisionBlock, row: int, weights: list[float]) -> list[float]:
    return sorted((weights[choice] for choice in block.allowed(row)), reverse=True)
