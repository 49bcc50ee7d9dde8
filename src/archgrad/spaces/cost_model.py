"""What every choice of a space costs in its plain networks: counted, or timed on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.spaces.block import Row
from archgrad.spaces.build import CellPlan
from archgrad.spaces.choice_costs import ChoiceCosts, Selected, exchanges, selected_choices, weights_of
from archgrad.spaces.cost import ImageSize, count_parameters, count_parts, measure_latency, time_parts
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.latency_table import LatencyTable, fit_latencies
from archgrad.spaces.space import SearchSpace
from archgrad.supernet import Edge, FixedCell
from archgrad.system import random_streams
from archgrad.system.random_streams import SavedRandomState

__all__ = ["CostMetric", "CostModel", "NetworkShape"]

CostMetric = Literal["madds", "params", "latency"]
"""Multiply-adds or parameters, counted; or seconds for one image, measured on the CPU of this machine."""


_STARTS = 5
"""Random architectures from which the cheapest one is sought."""


class NetworkShape(NamedTuple):
    """What fits a network of a space to data."""

    num_classes: int = 10
    input_channels: int = 3
    image_size: ImageSize = 32


@dataclass(frozen=True, eq=False)
class CostModel:
    """The cost of every architecture of a space, in one metric.

    Where operations are on edges, the cost is a sum: ``table``. Elsewhere, as in NAS-Bench-1Shot1, choices change the
    width of each other's operations, and the table is None. There the costs of choices are differences: those by which
    the cost of one whole network changes if the choice takes the place of another.

    Latencies of another ``device`` come from its table of whole cells, ``known``; the sum is then fitted to them.
    """

    space: SearchSpace
    metric: CostMetric
    shape: NetworkShape
    table: ChoiceCosts | None
    known: LatencyTable | None = None
    device: str = ""
    _around: dict[Genotype, ChoiceCosts] = field(default_factory=dict, repr=False)

    @classmethod
    def measure(cls, space: SearchSpace, metric: CostMetric, shape: NetworkShape, measured: object = None) -> CostModel:
        """Count or time the operations of all choices; ``measured`` is what :attr:`measured` gave before."""
        table = _read_table(space, measured) if metric == "latency" else None
        model = cls(space, metric, shape, table or _measured(space, metric, shape))
        if model.table is None and metric == "latency":
            raise UserError(
                f"the latency of a network of the space {space.name!r} is no sum over its choices, so it cannot be "
                f"expected; choose the metric madds or params, or a space with operations on edges."
            )
        return model

    @classmethod
    def of_device(
        cls, space: SearchSpace, shape: NetworkShape, known: LatencyTable, device: str, measured: object = None
    ) -> CostModel:
        """Fit the latencies of a device; ``measured`` is what :attr:`measured` gave before."""
        table = _read_table(space, measured) or fit_latencies(space, known.columns[device]).costs
        return cls(space, "latency", shape, table, known, device)

    @property
    def measured(self) -> dict[str, Any] | None:
        """The table as plain data if it was timed: two measurements are never the same."""
        if self.metric != "latency" or self.table is None:
            return None
        return {"fixed": self.table.fixed, **{name: one.tolist() for name, one in self.table.choices.items()}}

    @cached_property
    def lowest(self) -> float:
        """The lowest cost in the space; without a table, the lowest that exchanges find."""
        return self._amount(self._cheapest)

    @cached_property
    def highest(self) -> float:
        """The highest cost in the space, found in the same way."""
        return self._amount(self._extreme(cheapest=False))

    @cached_property
    def _cheapest(self) -> Selected:
        return self._extreme(cheapest=True)

    def around(self, probabilities: Mapping[str, Tensor]) -> ChoiceCosts:
        """Return the costs of choices: the table, or the differences around the strongest architecture."""
        if self.table is not None:
            return self.table
        return self._differences(self._strongest(probabilities))

    def cost(self, genotype: Genotype) -> float:
        """Return the true cost of an architecture's network; a latency is measured, or that of the device's table.

        A cell that the table lacks has the latency of the fitted sum.
        """
        classes, channels, size = self.shape
        if self.known is not None:
            time = self.known.milliseconds(genotype, self.device)
            return self.predicted(genotype) if time is None else time / 1000
        if self.metric == "latency":
            with SavedRandomState(torch.device("cpu")).replay():
                network = self.space.network(genotype, num_classes=classes, input_channels=channels)
            return measure_latency(network, channels, size)
        found = self.space.cost(genotype, **self.shape._asdict())
        return float(found.multiply_adds if self.metric == "madds" else found.parameters)

    def predicted(self, genotype: Genotype) -> float:
        """Return the cost of an architecture as the sum over its choices."""
        return self.around({}).of(selected_choices(self.space.blocks, genotype))

    def reduced(self, genotype: Genotype, probabilities: Mapping[str, Tensor], limit: float) -> Genotype:
        """Return the architecture itself, or one like it whose cost is within the limit.

        Choices are exchanged one by one for cheaper ones: each time the exchange that loses least log-probability for
        what it saves. If no exchange saves anything, the cheapest architecture is left.
        """
        selected = selected_choices(self.space.blocks, genotype)
        if self._amount(selected) <= limit:
            return genotype
        weights = {block.name: weights_of(block, probabilities).clamp_min(1e-30).log() for block in self.space.blocks}
        likely = ChoiceCosts(self.space.blocks, 0.0, weights)
        while (cost := self._amount(selected)) > limit:
            others = [(self._amount(other), other) for *_, other in exchanges(self.space.blocks, selected)]
            rates = [
                ((likely.of(selected) - likely.of(other)) / (cost - amount), other)
                for amount, other in others
                if amount < cost
            ]
            selected = min(rates, key=itemgetter(0))[1] if rates else self._cheapest
        return self.space.genotype(selected)

    def _extreme(self, cheapest: bool) -> Selected:
        if self.table is not None:
            return self.table.extreme(cheapest)
        sign = 1.0 if cheapest else -1.0
        return min((self._descend(seed, sign) for seed in range(_STARTS)), key=lambda one: sign * self._amount(one))

    def _descend(self, seed: int, sign: float) -> Selected:
        """Return the architecture of the lowest ``sign`` · cost that single exchanges reach from a random one."""
        drawn = random_streams.generator(seed, "costs")
        best = self._strongest({block.name: torch.rand(block.shape, generator=drawn) for block in self.space.blocks})
        lowest = sign * self._amount(best)
        while True:
            others = [other for *_, other in exchanges(self.space.blocks, best)]
            costs = [sign * self._amount(other) for other in others]
            if not costs or min(costs) >= lowest:
                return best
            lowest, best = min(costs), others[costs.index(min(costs))]

    def _strongest(self, probabilities: Mapping[str, Tensor]) -> Selected:
        blocks = self.space.blocks
        free = ChoiceCosts(blocks, 0.0, {block.name: torch.zeros(block.shape) for block in blocks})
        return free.select(probabilities)

    def _amount(self, selected: Selected) -> float:
        if self.table is None or self.known is not None:
            return self.cost(self.space.genotype(selected))
        return self.table.of(selected)

    def _differences(self, selected: Selected) -> ChoiceCosts:
        """Return the cost of a selection, and by how much an exchange for each choice changes it on average."""
        genotype = self.space.genotype(selected)
        if genotype not in self._around:
            base, changes = self.cost(genotype), dict[tuple[str, int, int], list[float]]()
            for name, row, choice, other in exchanges(self.space.blocks, selected):
                changes.setdefault((name, row, choice), []).append(self._amount(other) - base)
            tables = {block.name: torch.zeros(block.shape, dtype=torch.float64) for block in self.space.blocks}
            for (name, row, choice), found in changes.items():
                tables[name][row, choice] = fmean(found)
            self._around[genotype] = ChoiceCosts(self.space.blocks, base, tables)
        return self._around[genotype]


def _read_table(space: SearchSpace, measured: object) -> ChoiceCosts | None:
    """Return the table of a run that continues; None if it is not one of this space."""
    if not isinstance(measured, Mapping):
        return None
    try:
        tables = {block.name: torch.tensor(measured[block.name], dtype=torch.float64) for block in space.blocks}
        fixed = float(measured["fixed"])
    except (KeyError, TypeError, ValueError):
        return None
    fits = all(tables[block.name].shape == block.shape for block in space.blocks)
    finite = all(bool(one.isfinite().all()) for one in (torch.tensor(fixed), *tables.values()))
    return ChoiceCosts(space.blocks, fixed, tables) if fits and finite else None


def _measured(space: SearchSpace, metric: CostMetric, shape: NetworkShape) -> ChoiceCosts | None:
    """Return the costs of all choices of a space with operations on edges, else None.

    One network has the first choice on every edge, the next the second, and so on.
    """
    blocks = {block.name: block for block in space.blocks}
    tables = {name: torch.zeros(block.shape, dtype=torch.float64) for name, block in blocks.items()}
    if not all(block.on_edges and {row.picks for row in block.rows} == {1} for block in space.blocks):
        return None
    fixed: list[float] = []
    for choice in range(max(block.shape[1] for block in space.blocks)):
        network, edges = _network_of(space, choice, metric, shape)
        found = {(edge.block, edge.target, edge.source) for edge in edges}
        if found != {(name, row.target, row.source) for name, block in blocks.items() for row in block.rows}:
            return None
        total, parts = _amounts(network, edges, metric, shape)
        fixed.append(total - sum(parts))
        for edge, amount in zip(edges, parts, strict=True):
            rows = blocks[edge.block].rows
            row = [(one.target, one.source) for one in rows].index((edge.target, edge.source))
            if choice < len(rows[row].choices):
                tables[edge.block][row, choice] += amount
    if metric != "latency" and len(set(fixed)) > 1:
        return None
    return ChoiceCosts(space.blocks, max(median(fixed), 0.0), tables)


def _network_of(
    space: SearchSpace, choice: int, metric: CostMetric, shape: NetworkShape
) -> tuple[nn.Module, list[Edge]]:
    """Build the plain network with all edges of the space and this choice on each, or the last one that it has."""
    rows = {
        block.name: tuple(Row(row.target, row.source, (row.choices[: choice + 1][-1],)) for row in block.rows)
        for block in space.blocks
    }
    plan = CellPlan(rows, searching=False, concat={block.name: block.concat for block in space.blocks})
    device = torch.device("cpu" if metric == "latency" else "meta")
    with SavedRandomState(torch.device("cpu")).replay(), device:
        network = space.build(plan, shape.input_channels, shape.num_classes)
    cells = [module for module in network.modules() if isinstance(module, FixedCell)]
    return network, [edge for cell in cells for edge in cell.connections]


def _amounts(
    network: nn.Module, edges: list[Edge], metric: CostMetric, shape: NetworkShape
) -> tuple[float, list[float]]:
    """Return the cost of a network, and that of the operation on each edge, with the skip connection that it adds."""
    kinds: dict[nn.Module, tuple[str, int]] = {edge.operations[0]: (edge.choices[0], edge.stride) for edge in edges}
    kinds |= {edge.added: ("added", edge.stride) for edge in edges if edge.added is not None}
    found: tuple[float, Sequence[float]]
    if metric == "latency":
        found = time_parts(network, kinds, shape.input_channels, shape.image_size)
    elif metric == "params":
        found = count_parameters(network), [count_parameters(part) for part in kinds]
    else:
        found = count_parts(network, list(kinds), shape.input_channels, shape.image_size)
    parts: dict[nn.Module | None, float] = {None: 0.0, **dict(zip(kinds, found[1], strict=True))}
    return float(found[0]), [parts[edge.operations[0]] + parts[edge.added] for edge in edges]
