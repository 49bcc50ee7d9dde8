"""Zero-cost scores against calculations by hand, in double precision."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from each_of import each_of
from seeded import randn
from tiny_space import Tiny
from torch import Tensor, nn

from archgrad.blackbox import SCORES, Problem
from archgrad.blackbox.zero_cost import flops, grad_norm, jacov, nwot, params, snip, synflow

IMAGES, LABELS = randn(3, 1, 1, 4, seed=0), torch.tensor([0, 2, 1])


def linear(*widths: int) -> nn.Sequential:
    layers = [nn.Linear(one, other, bias=False) for one, other in pairwise(widths)]
    return nn.Sequential(nn.Flatten(), *layers).double()


def test_gradient_norm_and_snip_of_softmax_regression() -> None:
    network = linear(4, 3)
    weight, x = network[1].weight.detach(), IMAGES.flatten(1)
    gradient = ((x @ weight.T).softmax(-1) - F.one_hot(LABELS, 3)).T @ x / 3
    assert grad_norm(network, IMAGES, LABELS) == pytest.approx(float(gradient.square().sum().sqrt()), rel=1e-12)
    assert snip(network, IMAGES, LABELS) == pytest.approx(float((gradient * weight).abs().sum()), rel=1e-12)


def test_gradient_norms_are_summed_over_layers() -> None:
    network = linear(4, 5, 3)
    loss = F.cross_entropy(network(IMAGES), LABELS)
    norms = [float(one.norm()) for one in torch.autograd.grad(loss, list(network.parameters()))]
    assert grad_norm(network, IMAGES, LABELS) == pytest.approx(sum(norms), rel=1e-12)


def test_synflow_of_a_linear_network_is_its_depth_times_its_flow() -> None:
    """Every layer's Σ θ·∂R/∂θ is R, because R is linear in each layer."""
    network = linear(4, 5, 3)
    flow = (network[2].weight.abs() @ network[1].weight.abs()).sum().item()
    assert synflow(network, IMAGES, LABELS) == pytest.approx(2 * flow, rel=1e-12)


def test_synflow_leaves_batch_norms_out() -> None:
    first, second = nn.Conv2d(1, 2, 1, bias=False), nn.Conv2d(2, 3, 1, bias=False)
    norm = nn.BatchNorm2d(2)
    nn.init.constant_(norm.weight, 7.0)
    flow = 4 * (second.weight.abs()[:, :, 0, 0] @ first.weight.abs()[:, :, 0, 0]).sum().item()
    assert synflow(nn.Sequential(first, norm, nn.ReLU(), second), IMAGES, LABELS) == pytest.approx(2 * flow, rel=1e-6)


def test_jacov_of_a_linear_network_knows_one_direction() -> None:
    """All Jacobians are equal, so the eigenvalues are N and zeros."""
    k = 1e-5
    wanted = -(math.log(3 + k) + 1 / (3 + k) + 2 * (math.log(k) + 1 / k))
    assert jacov(linear(4, 3), IMAGES, LABELS) == pytest.approx(wanted, rel=1e-6)


class Squares(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).square() / 2


def test_jacov_is_made_of_correlations_between_images() -> None:
    """The Jacobian of Σ x²/2 is x."""
    eigenvalues = torch.linalg.eigvalsh(torch.corrcoef(IMAGES.flatten(1))) + 1e-5
    wanted = -float((eigenvalues.log() + 1 / eigenvalues).sum())
    assert jacov(Squares(), IMAGES, LABELS) == pytest.approx(wanted, rel=1e-9)


class Signs(nn.Module):
    """ReLUs of the inputs, and some that the output does not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        F.relu(-5 * self.scale * x)
        torch.relu(torch.ones(2, 8))
        return F.relu(self.scale * x.flatten(1))


def test_nwot_counts_the_relus_on_which_images_agree() -> None:
    images = torch.tensor([[1.0, 2.0, -1.0], [3.0, -1.0, -2.0]]).view(2, 1, 1, 3)
    assert nwot(Signs(), images, LABELS[:2]) == pytest.approx(math.log(3 * 3 - 2 * 2))


def test_sizes_are_counted() -> None:
    network = nn.Sequential(nn.Conv2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 5))
    images = torch.zeros(2, 3, 4, 6)
    assert params(network, images, LABELS) == 3 * 2 + 2 + 2 * 5 + 5
    assert flops(network, images, LABELS) == 3 * 2 * 4 * 6 + 2 * 5


def test_a_network_that_ignores_its_input_scores_last() -> None:
    class Deaf(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return self.bias.expand(len(x), 3) + 0 * x.sum()

    assert jacov(Deaf(), IMAGES, LABELS) == nwot(Deaf(), IMAGES, LABELS) == -math.inf


@each_of(SCORES)
def test_scores_change_nothing(name: str) -> None:
    problem = Problem(Tiny(channels=2, cells_per_stage=1), "digits")
    network = problem.space.network(problem.draw(problem.stream("draw")), num_classes=3, input_channels=1).eval()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    images = randn(4, 1, 8, 8, seed=1).float()
    score = SCORES[name](network, images, torch.tensor([0, 1, 2, 0]))
    assert math.isfinite(score)
    assert score == SCORES[name](network, images, torch.tensor([0, 1, 2, 0]))
    assert not network.training
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not images.requires_grad
