"""REINFORCE: independent probabilities of all choices, moved by the values of what they draw."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from archgrad.blackbox.base import BlackboxSearch, Problem, Proposals, check_independent_rows
from archgrad.parts.fields import Positive, Probability
from archgrad.spaces import SearchSpace

__all__ = ["Reinforce"]


@dataclass(frozen=True)
class Reinforce(BlackboxSearch):
    """Policy gradient (Williams, 1992) with a softmax per row: the controller of NAS-Bench-201's REINFORCE.

    An architecture a is drawn from π = Π softmax(z_row), and Adam descends −(R(a) − b)·log π(a), where R is the value
    and b its exponential average with decay ``momentum``, without bias (and with R(a) in it). z starts at 1e-3·N(0, 1).

    ``lr`` is that of the published code for NATS-Bench. The script for NAS-Bench-201 names 0.001, at which a search of
    about 100 steps ends where random search ends.
    """

    lr: Positive = 0.01
    momentum: Probability = 0.9

    def check(self, space: SearchSpace) -> None:
        """Reject spaces in which rows depend on each other."""
        check_independent_rows("reinforce", space)

    def proposals(self, problem: Problem) -> Proposals:
        """Draw from the policy, and move it after each value."""
        draws, blocks = problem.stream("draw"), problem.blocks
        logits = {block.name: 1e-3 * torch.randn(block.shape, generator=draws) for block in blocks}
        optimizer = torch.optim.Adam([logit.requires_grad_() for logit in logits.values()], lr=self.lr)
        average = weight = 0.0
        while True:
            policies = {
                block.name: logits[block.name].masked_fill(~block.mask, -torch.inf).log_softmax(-1) for block in blocks
            }
            drawn = {
                name: torch.multinomial(policy.detach().exp(), 1, generator=draws) for name, policy in policies.items()
            }
            chosen = {name: list(enumerate(rows[:, 0].tolist())) for name, rows in drawn.items()}
            value = yield problem.space.genotype(chosen)
            average = self.momentum * average + (1 - self.momentum) * value
            weight = self.momentum * weight + 1 - self.momentum
            likelihood = torch.stack([policies[name].gather(-1, drawn[name]).sum() for name in policies]).sum()
            optimizer.zero_grad()
            (-(value - average / weight) * likelihood).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
