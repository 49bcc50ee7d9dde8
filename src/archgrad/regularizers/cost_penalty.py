"""Penalize architectures whose networks cost more than a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from archgrad.autodiff.tensors import Probabilities
from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative, Probability, check_value
from archgrad.regularizers.base import OuterStep, Regularizer
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.spaces.cost_model import CostMetric, CostModel, NetworkShape
from archgrad.spaces.latency_table import open_latencies
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

    With a ``device``, such as raspi4, they come from a table of whole cells of NAS-Bench-201 on devices: the file
    ``table``, or the one in ``$ARCHGRAD_DATA``. The costs of choices are then the least squares fit to it
    (:func:`archgrad.spaces.latency_table.fit_latencies`), and what is kept within the target is the cell's own value.
    """

    depends_on_size: ClassVar[bool] = True

    metric: CostMetric = "madds"
    target: float | str | None = None
    weight: NonNegative = 1.0
    margin: Probability = 0.2
    device: str | None = None
    table: str | None = None
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

        if self.has_table and self.metric != "latency":
            raise UserError(
                f"device and table of CostPenalty are about latencies, and its metric is {self.metric}; set "
                f"cost-penalty.metric=latency, or leave them out."
            )
        if self.table is not None and not self.table.startswith("~"):  # a run may be resumed in another folder
            object.__setattr__(self, "table", str(Path(self.table).absolute()))

    @property
    def has_table(self) -> bool:
        """Whether the latencies are those of a table, not of this machine."""
        return self.device is not None or self.table is not None

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
        model = self._model(space, shape, measured)
        if model.lowest > self.limit:
            where, ways = "at this size", ", fewer channels or cells, or smaller images"
            if self.has_table:
                where, ways = f"on {model.device}", ""
            raise UserError(
                f"target of CostPenalty is {self.shown(self.limit)}, but the cheapest architecture of the space "
                f"{space.name!r} takes {self.shown(model.lowest)} {where}; give a higher target{ways}."
            )
        return replace(self, model=model)

    def _model(self, space: SearchSpace, shape: NetworkShape, measured: Any = None) -> CostModel:
        if not self.has_table:
            return CostModel.measure(space, self.metric, shape, measured)
        table = open_latencies(self.table)
        return CostModel.of_device(space, shape, table, table.device(self.device), measured)

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
        model = self._model(space, shape) if self.has_table else CostModel(space, self.metric, shape, None)
        cost, where = model.cost(genotype), ""
        if model.known is not None:
            where = f" on {model.device} in its table ({self.shown(model.predicted(genotype))} by the additive fit)"
        verdict = "within" if cost <= self.limit else "over"
        return f"{self.shown(cost)}{where}, {cost / self.limit:.0%} of {self.shown(self.limit)}: {verdict} the target"

    def shown(self, cost: float) -> str:
        """Return a cost with its unit.

        >>> CostPenalty("madds").shown(2_345_678), CostPenalty("latency").shown(0.0051)
        ('2.346 M multiply-adds', '5.1 ms')
        """
        if self.metric == "latency":
            return f"{1000 * cost:.4g} ms"
        return f"{cost / 1e6:.4g} M {'multiply-adds' if self.metric == 'madds' else 'parameters'}"
