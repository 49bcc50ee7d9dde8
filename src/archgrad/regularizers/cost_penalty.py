"""Penalize architectures whose networks cost more than a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from archgrad.autodiff.tensors import Probabilities
from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative, Probability, check_value
from archgrad.regularizers.base import OuterStep, Regularizer
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.spaces.cost_model import CostMetric, CostModel, NetworkShape
from archgrad.system.amounts import read_amount, read_seconds

__all__ = ["CostPenalty"]

_END = 1.05
"""The progress at which the price would be infinite; a search ends at 1."""


@dataclass(frozen=True)
class CostPenalty(Regularizer):
    """Add λ_t · (C(p) − ``target``)₊ / (C_max − C_min) to L2, so that a search ends within a budget.

    ``metric`` is madds, params or latency: multiply-adds or parameters of the plain network, at the size and with the
    images of the search, or its seconds for one image on this machine. ``target`` may have a unit: "600M", "5ms".

    C(p) is the cost of the most expensive architecture that is nearly the derived one: a choice or edge counts if its
    probability is at least 1 − ``margin`` · t times that of the derived one. So the penalty acts before an expensive
    choice wins, and not only after. C is a step function; in its place the gradient is that of the expected cost, which
    makes expensive choices less probable:

        E(p) = c_fixed + Σ over groups of k · Σ p·c / Σ p.

    A group is a row of choices of which a genotype takes k, or all edges into a node that keeps k
    (:meth:`archgrad.spaces.choice_costs.ChoiceCosts.expected`). For the one-hot mixture of a genotype, E and C are both
    the cost of its network.

    The penalty is 0 while C is within the target, and its gradient does not shrink as C comes near. Its price
    λ_t = ``weight`` · t / (1.05 − t) grows with the progress t, to 20 times the weight: first the loss decides, then
    the target. Division by the range of costs makes a weight mean the same in every space and metric.

    A penalty steers, but the last step of a short search may still lead out of the budget. So a derived architecture
    over the target has choices exchanged for cheaper ones, those first that lose least log-probability for what they
    save, until it is within. The search says so if that happens at its end.

    Latencies come from a table: the median of warm runs of each operation at each width, stride and resolution, and a
    fixed rest. A run measures it once and keeps it. The time of the whole network may differ from the sum.
    """

    depends_on_size: ClassVar[bool] = True

    metric: CostMetric = "madds"
    target: float | str | None = None
    weight: NonNegative = 1.0
    margin: Probability = 0.2
    model: CostModel | None = field(default=None, compare=False, repr=False, metadata={"knob": False})

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.target, str):
            read = read_seconds if self.metric == "latency" else read_amount
            object.__setattr__(self, "target", float(read("target of CostPenalty", self.target)))
        elif self.target is not None and self.target <= 0:
            raise UserError(
                f"target of CostPenalty is {self.target:g}; it must be greater than 0, such as 600M or 5ms."
            )

    @property
    def limit(self) -> float:
        """The target as a number; raise a UserError if there is none."""
        if isinstance(self.target, float | int):
            return float(self.target)
        example = "5ms" if self.metric == "latency" else "600M"
        raise UserError(
            f"CostPenalty has no target; give it one, such as cost-penalty.target={example} for the metric "
            f"{self.metric}, or leave it out."
        )

    def check_blocks(self, blocks: Sequence[DecisionBlock]) -> None:
        """Reject a penalty without a target."""
        _ = self.limit

    def bound(self, space: SearchSpace, shape: NetworkShape, measured: Any = None) -> CostPenalty:
        """Return this penalty with the costs of this space's networks; reject a target that none of them meets."""
        check_value("space", space, SearchSpace)
        model = CostModel.measure(space, self.metric, shape, measured)
        if model.lowest > self.limit:
            raise UserError(
                f"target of CostPenalty is {self.shown(self.limit)}, but the cheapest architecture of the space "
                f"{space.name!r} takes {self.shown(model.lowest)} at this size; give a higher target, fewer channels "
                f"or cells, or smaller images."
            )
        return replace(self, model=model)

    @property
    def measured(self) -> Any:
        """The table of latencies as plain data, None for what is counted."""
        return self.model.measured if self.model is not None else None

    def outer_term(self, step: OuterStep) -> Tensor | None:
        """Return the penalty; None within the target, and before :meth:`bound`."""
        if self.model is None:
            return None
        costs = self.model.around(step.probabilities)
        excess = costs.of(costs.select(step.probabilities, self.margin * step.progress)) - self.limit
        if excess <= 0:
            return None
        expected = costs.expected(step.probabilities)
        price = self.price(step.progress) / ((self.model.highest - self.model.lowest) or 1.0)
        return (price * (excess + expected - expected.detach())).to(next(iter(step.probabilities.values())))

    def amend(self, genotype: Genotype, probabilities: Probabilities) -> Genotype:
        """Exchange choices of a derived architecture over the target for cheaper ones, until it is within."""
        return genotype if self.model is None else self.model.reduced(genotype, probabilities, self.limit)

    def price(self, progress: float) -> float:
        """Return λ_t."""
        return self.weight * progress / (_END - progress)

    def compare(self, space: SearchSpace, genotype: Genotype, shape: NetworkShape) -> str:
        """Say what the network of a genotype costs, as searched, and what part of the target that is."""
        cost = CostModel(space, self.metric, shape, None).cost(genotype)
        verdict = "within" if cost <= self.limit else "over"
        return f"{self.shown(cost)}, {cost / self.limit:.0%} of {self.shown(self.limit)}: {verdict} the target"

    def shown(self, cost: float) -> str:
        """Return a cost with its unit.

        >>> CostPenalty("madds").shown(2_345_678), CostPenalty("latency").shown(0.0051)
        ('2.346 M multiply-adds', '5.1 ms')
        """
        if self.metric == "latency":
            return f"{1000 * cost:.4g} ms"
        return f"{cost / 1e6:.4g} M {'multiply-adds' if self.metric == 'madds' else 'parameters'}"
