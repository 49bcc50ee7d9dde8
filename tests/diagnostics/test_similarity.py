"""The cosines between cells (Λ-DARTS, Fig. 6), against what cells of known outputs and gradients have."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from experiments import experiment_of
from torch import Tensor, nn

import archgrad as ag
from archgrad.bilevel.problem import BilevelProblem
from archgrad.config import SearchConfig
from archgrad.data import ImageData
from archgrad.diagnostics import StageSimilarity, average_similarity, layer_similarity
from archgrad.errors import UserError
from archgrad.hypergradients import evaluate_at
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.loop.measuring import evaluate_at_state
from archgrad.operations import Identity, Operation
from archgrad.supernet import Edge, MixedCell
from archgrad.supernet.mixture import CellMixture

GENERATOR = torch.Generator().manual_seed(0)


def noise(images: int, size: int) -> ImageData:
    pixels = torch.randint(256, (images, 1, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return ImageData("noise", pixels, torch.arange(images) % 4, tuple("abcd"))


class Scaled(Operation):
    """A convolution whose output is a known multiple of a fixed pattern, whatever it reads."""

    def __init__(self, pattern: Tensor) -> None:
        super().__init__()
        self.pattern = nn.Parameter(pattern)

    def forward(self, x: Tensor) -> Tensor:
        return 0 * x + self.pattern


class Chain(nn.Module):
    """Cells of one edge in a row: x ← p·x + q·pattern."""

    def __init__(self, patterns: list[Tensor]) -> None:
        super().__init__()
        self.cells = nn.ModuleList(
            MixedCell([Edge(0, 1, (Identity(), Scaled(pattern)))], inputs=1, nodes=2) for pattern in patterns
        )

    def forward(self, x: Tensor, mixture: Tensor) -> Tensor:
        for number, cell in enumerate(self.cells):
            x = cell([x], CellMixture([list(mixture[0])], (0, number)))[-1]
        return x


def at(net: nn.Module, target: Tensor, alpha: Tensor) -> EvaluationPoint:
    def loss(weights: dict[str, Tensor], given: dict[str, Tensor], x: Tensor) -> Tensor:
        return (torch.func.functional_call(net, weights, (x, given["a"])) * target).sum()

    x = torch.randn(2, 3, 4, 4, generator=GENERATOR, dtype=torch.float64)
    with evaluate_at(BilevelProblem(loss, loss), dict(net.named_parameters()), {"a": alpha}, x, x) as point:
        return point


def test_a_loss_with_a_term_made_of_its_own_gradient_is_measured_too() -> None:
    """LayerAlignment on the outer objective differentiates L2 by the mixture; with the weight 0 it adds nothing."""

    def measured(weight: float) -> tuple[StageSimilarity, ...]:
        term = ag.regularizers.LayerAlignment(objective="outer", schedule="constant", weight=weight)
        method = replace(ag.recipes.darts(), regularizers=(term,))
        setup = experiment_of(
            ag.spaces.NASBench201(channels=2, cells_per_stage=2),
            method,
            noise(16, 8),
            SearchConfig(epochs=1, batch_size=8),
        )
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            state = setup.initial_state()
        with evaluate_at_state(setup, state, setup.step_batches(0)) as point:
            return layer_similarity(point, state.supernet)

    with_it, without = measured(0.125), measured(0.0)
    assert [stage.cells for stage in with_it] == [2, 2, 2]
    assert [stage.convolutions for stage in with_it] == [stage.convolutions for stage in without]
    assert all(-1 <= stage.node_gradients <= 1 for stage in with_it)


def test_the_cosines_of_cells_that_are_known() -> None:
    first = torch.randn(1, 3, 4, 4, generator=GENERATOR, dtype=torch.float64)
    second = torch.randn(1, 3, 4, 4, generator=GENERATOR, dtype=torch.float64)
    second -= first * (first * second).sum() / first.square().sum()
    net = Chain([first, second, -2 * first])
    target = torch.randn(2, 3, 4, 4, generator=GENERATOR, dtype=torch.float64)
    (stage,) = layer_similarity(at(net, target, torch.tensor([[0.5, 0.5]], dtype=torch.float64)), net)
    assert (stage.channels, stage.size, stage.cells) == (3, (4, 4), 3)
    assert stage.convolutions == pytest.approx((0 - 1 + 0) / 3)
    assert stage.node_gradients == pytest.approx(1)  # each is the next one's, times the weight of the skip connection


def test_a_gradient_that_vanishes_counts_as_no_likeness() -> None:
    net = Chain([torch.ones(1, 3, 4, 4, dtype=torch.float64), torch.ones(1, 3, 4, 4, dtype=torch.float64)])
    target = torch.ones(2, 3, 4, 4, dtype=torch.float64)
    (stage,) = layer_similarity(at(net, target, torch.tensor([[0.0, 1.0]], dtype=torch.float64)), net)
    assert stage.node_gradients == 0
    assert stage.convolutions == pytest.approx(1)


@pytest.mark.parametrize(
    ("space", "stages"),
    [
        (ag.spaces.NASBench201(channels=4, cells_per_stage=2), [(4, 2), (8, 2), (16, 2)]),
        (ag.spaces.DARTS(channels=4, cells=7), [(4, 2), (16, 2)]),
        (
            ag.spaces.NASBench201(channels=4, cells_per_stage=2, exclude=("nor_conv_1x1", "nor_conv_3x3")),
            [(4, 2), (8, 2), (16, 2)],
        ),
    ],
)
def test_cells_of_a_stage_are_compared_and_nothing_changes(space, stages) -> None:
    setup = experiment_of(space, ag.recipes.darts(), noise(16, 8), SearchConfig(epochs=1, batch_size=8))
    state = setup.initial_state()
    before = {name: value.clone() for name, value in state.supernet.state_dict().items()}
    with evaluate_at_state(setup, state, setup.step_batches(0)) as point:
        found = layer_similarity(point, state.supernet)
        again = layer_similarity(point, state.supernet)
    assert found == again
    assert [(stage.channels, stage.cells) for stage in found] == [
        (width, cells) for width, cells in stages if cells > 1
    ]
    for stage in found:
        assert -1 <= stage.node_gradients <= 1
        assert (stage.convolutions is None) == ("nor_conv_1x1" in getattr(space, "exclude", ()))
    assert all(torch.equal(value, before[name]) for name, value in state.supernet.state_dict().items())
    assert not any(module._forward_hooks for module in state.supernet.modules())


def test_partial_channels_and_an_architecture_that_is_not_learned() -> None:
    for method in (ag.recipes.pc_darts(), ag.recipes.random_nas()):
        space = ag.spaces.NASBench201(channels=8, cells_per_stage=2)
        setup = experiment_of(space, method, noise(32, 8), SearchConfig(epochs=20, batch_size=8))
        state = setup.initial_state()
        with evaluate_at_state(setup, state, setup.step_batches(0)) as point:
            assert [stage.cells for stage in layer_similarity(point, state.supernet)] == [2, 2, 2]


def test_one_cell_per_stage_is_refused() -> None:
    setup = experiment_of(
        ag.spaces.NASBench201(channels=4, cells_per_stage=1),
        ag.recipes.darts(),
        noise(16, 8),
        SearchConfig(epochs=1, batch_size=8),
    )
    state = setup.initial_state()
    with (
        evaluate_at_state(setup, state, setup.step_batches(0)) as point,
        pytest.raises(UserError, match="no two of the 3 cells"),
    ):
        layer_similarity(point, state.supernet)


def test_the_mean_over_batches() -> None:
    one, two = (StageSimilarity(4, (8, 8), 2, cosine, cosine / 2) for cosine in (0.2, 0.6))
    (stage,) = average_similarity([[one], [two]])
    assert stage == StageSimilarity(4, (8, 8), 2, pytest.approx(0.4), pytest.approx(0.2))
    bare = StageSimilarity(4, (8, 8), 2, 0.1, None)
    assert average_similarity([[bare], [bare]])[0].convolutions is None
