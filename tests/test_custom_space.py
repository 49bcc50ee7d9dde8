from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archgrad as ag
from archgrad.operations import Identity, Operation, ReLUConvBN
from archgrad.spaces import CellPlan, CellViews, DecisionBlock, SearchSpace, build_edges, edge_rows
from archgrad.supernet import FixedCell, MixedCell
from archgrad.training.weight_training import WeightTraining

EXAMPLE = Path(__file__).parents[1] / "examples" / "custom_space.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_the_example_finds_an_architecture(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    result = example["main"](images=160)
    printed = capsys.readouterr().out.splitlines()
    genotype = result.genotype
    assert printed[0] == str(genotype)
    assert ag.Genotype.parse(printed[0]) == genotype
    assert " M parameters, " in printed[1]
    assert [(decision.target, decision.source) for decision in genotype["cell"]] == [(1, 0), (2, 0), (2, 1)]
    assert {decision.choice for decision in genotype["cell"]} <= {"skip_connect", "pool", "excite"}
    assert len(result.history) == 1
    assert result.mixture["cell"].shape == (3, 3, 3)


def test_the_example_is_repeatable(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (example["main"](images=80) for _ in range(2))
    assert torch.equal(first.alpha["cell"], second.alpha["cell"])
    assert capsys.readouterr().out


def test_an_operation_of_ones_own_is_differentiable_twice(example: dict[str, Any]) -> None:
    torch.manual_seed(0)
    net = example["Excited"](channels=2, cells_per_stage=1).supernet(num_classes=3, input_channels=1).double()
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mixture = {"cell": torch.full((3, 3, 3), 1 / 3, dtype=torch.float64).requires_grad_()}
    loss = F.cross_entropy(net(x, mixture), torch.tensor([0, 1, 2]))
    (first,) = torch.autograd.grad(loss, mixture["cell"], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), mixture["cell"])
    assert first.any()
    assert second.isfinite().all()


def test_an_unknown_operation_of_ones_own_is_explained(example: dict[str, Any]) -> None:
    space = example["Excited"](channels=2, cells_per_stage=1)
    with pytest.raises(ag.UserError, match="in the space 'excited': 'exite'; did you mean 'excite'"):
        space.network(ag.Genotype.parse("|exite~0|+|skip~0|skip~1|"))


class Net(nn.Module):
    def __init__(self, cell: MixedCell | FixedCell, channels: int, inputs: int, classes: int) -> None:
        super().__init__()
        self.stem, self.cell = nn.Conv2d(inputs, channels, 1), cell
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor, mixture: CellViews | None = None) -> Tensor:
        x = self.stem(x)
        nodes = self.cell([x]) if mixture is None else self.cell([x], mixture["only"][0])
        logits: Tensor = self.classifier(nodes[-1].mean((2, 3)))
        return logits


class Double(Operation):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class FromPieces(SearchSpace):
    """A space built from the pieces, with a skeleton of its own."""

    name = "pieces"
    depth_knob = "channels"
    vocabulary = {  # noqa: RUF012
        "skip": lambda site: Identity(),
        "double": lambda site: Double(),
        "conv": lambda site: ReLUConvBN(site.channels, site, 1),
    }

    @property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        return (DecisionBlock("only", 1, edge_rows([(1, [0]), (2, [0, 1])], tuple(self.vocabulary))),)

    @property
    def weights(self) -> WeightTraining:
        return WeightTraining(batch_size=16)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        edges = build_edges(plan, "only", self.vocabulary, self.channels)
        cell = (MixedCell if plan.searching else FixedCell)(edges, inputs=1, nodes=3)
        return Net(cell, self.channels, input_channels, num_classes)


def test_a_space_may_have_a_skeleton_of_its_own() -> None:
    space = FromPieces(channels=3)
    result = ag.search(space, ag.recipes.darts(), ag.data.digits(limit=64), epochs=1, seed=0)
    assert {decision.choice for decision in result.genotype["only"]} <= set(space.vocabulary)
    assert space.network(result.genotype, num_classes=10, input_channels=1)(torch.rand(2, 1, 8, 8)).shape == (2, 10)


def test_a_choice_without_an_operation_is_explained() -> None:
    class Broken(FromPieces):
        @property
        def blocks(self) -> tuple[DecisionBlock, ...]:
            return (DecisionBlock("only", 1, edge_rows([(1, [0])], ("skip", "cnv"))),)

    with pytest.raises(ag.UserError, match="unknown operation 'cnv'; did you mean 'conv'"):
        Broken(channels=3).supernet()
