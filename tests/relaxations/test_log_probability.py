"""The sampled path of DSNAS: one-hot, with the gradient of a log-probability."""

from __future__ import annotations

import pytest
import torch
from seeded import randn

from archgrad.autodiff.tensors import Alpha
from archgrad.relaxations import LogProbability
from archgrad.relaxations.base import Domain
from archgrad.spaces import DecisionBlock, Row

BLOCK = DecisionBlock("cell", 2, (Row(1, 0, ("a", "b", "c")),))


@pytest.mark.parametrize("domain", ["real", "simplex"])
def test_the_mean_gradient_of_a_linear_loss_is_that_of_its_expectation(domain: Domain) -> None:
    """For L = c·Z, Σ_s p[s]·c[s]·∂log p[s] = ∂ Σ_s p[s]·c[s]."""
    member, costs = LogProbability(domain=domain), randn(3, seed=1)
    values = randn(1, 3, seed=0) if domain == "real" else randn(1, 3, seed=0).softmax(-1)
    alpha = Alpha({"cell": values.requires_grad_()})
    chances = member.probabilities([BLOCK], alpha)["cell"][0]
    (wanted,) = torch.autograd.grad(chances @ costs, alpha["cell"])
    mean = torch.zeros(1, 3, dtype=torch.float64)
    for choice in range(3):
        noise = {"cell": torch.full((1, 1, 3), -100.0)}
        noise["cell"][..., choice] = 100.0  # this one is drawn
        mixture = member.relax([BLOCK], alpha, noise, 0.0).mixture["cell"]
        assert mixture[0, 0].tolist() == [float(place == choice) for place in range(3)]
        (gradient,) = torch.autograd.grad(mixture[0, 0] @ costs, alpha["cell"])
        mean += chances.detach()[choice] * gradient
    torch.testing.assert_close(mean, wanted)
