"""The cost of every choice adds up to the cost of whole networks."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import pytest
import torch

from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.spaces import (
    DARTS,
    S1,
    S3,
    AmendedA2,
    DARTSWide,
    DecisionBlock,
    NASBench1Shot1,
    NASBench201,
    Row,
    SearchSpace,
)
from archgrad.spaces.choice_costs import ChoiceCosts
from archgrad.spaces.cost_model import CostMetric, CostModel, NetworkShape, _read_table
from archgrad.supernet import SupernetOptions

SHAPE = NetworkShape(7, 2, (8, 10))
SPACES: dict[str, SearchSpace] = {
    "nasbench201": NASBench201(channels=3, cells_per_stage=1),
    "darts": DARTS(channels=2, cells=4),
    "darts-wide-all-skip": DARTSWide(channels=2, skips="all-skip"),
    "s1": S1(channels=2, cells=3),
    "s3": S3(channels=2, cells=3, stem="imagenet"),
    "amended-a2": AmendedA2(channels=2, cells=3),
    "nasbench1shot1-1": NASBench1Shot1(number=1, channels=5, cells=4),
    "nasbench1shot1-3": NASBench1Shot1(number=3, channels=6, cells=3, stem="imagenet"),
}


@cache
def measured(space: SearchSpace, metric: CostMetric) -> CostModel:
    """Measure once for all tests."""
    return CostModel.measure(space, metric, SHAPE)


def drawn(space: SearchSpace, seed: int) -> dict[str, torch.Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return {block.name: torch.rand(block.shape, generator=stream) * block.mask for block in space.blocks}


@pytest.mark.parametrize("metric", ["madds", "params"])
@pytest.mark.parametrize("name", SPACES)
def test_the_expected_cost_of_a_genotype_is_its_cost_to_the_digit(name: str, metric: CostMetric) -> None:
    space = SPACES[name]
    model = measured(space, metric)
    assert (model.table is None) == name.startswith("nasbench1shot1")
    for seed in range(3):
        genotype = Argmax().select(space, drawn(space, seed))
        true = space.cost(genotype, num_classes=7, input_channels=2, image_size=(8, 10))
        wanted = true.multiply_adds if metric == "madds" else true.parameters
        mixture = space.one_hot(genotype)
        costs = model.around(mixture)
        assert costs.expected(mixture).item() == wanted == model.cost(genotype)
        assert costs.of(costs.select(mixture)) == wanted
        assert model.lowest <= wanted <= model.highest


def test_the_strongest_selection_is_the_derived_architecture() -> None:
    space = SPACES["darts"]
    model = measured(space, "madds")
    for seed in range(5):
        probabilities = drawn(space, seed)
        chosen = model.around(probabilities).select(probabilities)
        assert space.genotype(chosen) == Argmax().select(space, probabilities)


def test_edge_weights_decide_which_edges_count() -> None:
    space, options = SPACES["darts"], SupernetOptions(edge_weights=True)
    costs = measured(space, "params").around({})
    genotype = Argmax().select(space, drawn(space, 0))
    mixture = space.one_hot(genotype, options)
    even = {name: torch.ones_like(value) if "edges" not in name else value for name, value in mixture.items()}
    assert costs.expected(mixture).item() == measured(space, "params").cost(genotype)
    without = {name: value for name, value in even.items() if "edges" not in name}
    assert costs.expected(even) != costs.expected(without)


def test_the_cheapest_cell_on_nodes_is_that_of_an_enumeration() -> None:
    space = SPACES["nasbench1shot1-1"]
    model = measured(space, "madds")
    operations, inputs, output = space.blocks
    picks = [list(combinations(range(len(row.choices)), row.picks)) for row in (*inputs.rows, *output.rows)]
    costs = [
        model.cost(
            space.genotype(
                {
                    "operations": [(row, kind) for row in range(len(operations.rows))],
                    "inputs": [(row, one) for row, pair in enumerate(wiring[:-1]) for one in pair],
                    "output": [(0, one) for one in wiring[-1]],
                }
            )
        )
        for kind in (0, 1)
        for wiring in product(*picks)
    ]
    assert model.lowest == min(costs)
    assert model.highest == max(costs)


def test_soft_probabilities_give_the_mean_of_what_is_kept() -> None:
    rows = tuple(Row(3, source, ("none", "a", "b")) for source in range(3))
    block = DecisionBlock("cell", 1, rows, keep=2, excluded=frozenset({"none"}))
    table = torch.tensor([[9.0, 1, 2], [9, 3, 4], [9, 5, 6]], dtype=torch.float64)
    costs = ChoiceCosts((block,), 10.0, {"cell": table})
    even = {"cell": torch.full((3, 3), 1 / 3, dtype=torch.float64, requires_grad=True)}
    expected = costs.expected(even)
    assert expected.item() == pytest.approx(10 + 2 * 3.5)  # two of three edges, and never "none"
    (slope,) = torch.autograd.grad(expected, [even["cell"]])
    assert slope[:, 0].abs().max() == 0
    torch.testing.assert_close(slope[:, 1:], 2 * (table[:, 1:] - 3.5) / 2)
    assert costs.of(costs.select({"cell": torch.tensor([[0, 0.5, 0.46], [0, 0.4, 0.2], [0, 0.3, 0.2]])}, 0.0)) == 14
    near = {"cell": torch.tensor([[0, 0.5, 0.46], [0, 0.4, 0.2], [0, 0.3, 0.2]])}
    assert costs.of(costs.select(near, 0.1)) == 15  # b is within a tenth of a on the first edge
    assert costs.of(costs.select(near, 0.3)) == 18  # and the last edge within three of the second


def test_probability_zero_everywhere_is_no_error() -> None:
    space = SPACES["s3"]
    costs = measured(space, "params").around({})
    nothing = {block.name: torch.zeros(block.shape).requires_grad_() for block in space.blocks}
    found = torch.autograd.grad(costs.expected(nothing), list(nothing.values()))
    assert all(value.isfinite().all() for value in found)


def test_latencies_are_measured_once_and_read_again() -> None:
    space = SPACES["nasbench201"]
    before = torch.get_rng_state()
    model = CostModel.measure(space, "latency", SHAPE)
    assert torch.equal(before, torch.get_rng_state())
    table = model.around({})
    assert 0 <= table.fixed < model.lowest < model.highest < 10
    assert (table.choices["cell"] >= 0).all()
    again = CostModel.measure(space, "latency", SHAPE, model.measured)
    assert again.measured == model.measured
    for broken in ({}, {"fixed": 1.0}, {"fixed": 1.0, "cell": [[1.0]]}, {"fixed": "x", "cell": []}, 5):
        assert _read_table(space, broken) is None


def test_latencies_need_operations_on_edges() -> None:
    with pytest.raises(UserError, match=r"is no sum over its choices.*choose the metric madds or params"):
        CostModel.measure(SPACES["nasbench1shot1-1"], "latency", SHAPE)


@pytest.mark.parametrize("name", ["nasbench201", "s1", "nasbench1shot1-1"])
def test_any_architecture_can_be_brought_within_any_limit_of_the_space(name: str) -> None:
    space = SPACES[name]
    model = measured(space, "params")
    for seed in range(3):
        probabilities = drawn(space, seed)
        genotype = Argmax().select(space, probabilities)
        assert model.reduced(genotype, probabilities, model.highest) is genotype
        for share in (0.0, 0.05, 0.3):
            limit = model.lowest + share * (model.highest - model.lowest)
            assert model.cost(model.reduced(genotype, probabilities, limit)) <= limit


def test_the_least_probable_of_equal_savings_goes_first() -> None:
    space = SPACES["nasbench201"]
    model = measured(space, "params")
    probabilities = {"cell": torch.full((6, 5), 0.1)}
    probabilities["cell"][:, 3] = torch.tensor([0.6, 0.6, 0.3, 0.6, 0.6, 0.6])  # 3×3 convolutions, the third barely
    genotype = Argmax().select(space, probabilities)
    found = model.reduced(genotype, probabilities, model.highest - 1)
    changed = [one for one, other in zip(genotype["cell"], found["cell"], strict=True) if one != other]
    assert [(one.target, one.source) for one in changed] == [(2, 1)]
