"""Judging architectures by the weights that a search shares between them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from archgrad import randomness
from archgrad.discretizers import Judge
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState

__all__ = ["judge_of"]


def judge_of(setup: Setup, state: SearchState) -> Judge:
    """Return a judge that classifies the images which train the architecture, as they are, with the present weights."""
    seed = randomness.seed_of(setup.seed, "judge")

    def accuracy(mixture: Mapping[str, Tensor], number: int) -> float:
        batch = setup.judge_loader.batch(number)
        weights = {name: value.to(state.device) for name, value in mixture.items()}
        with torch.no_grad():
            logits = state.supernet(batch.images, weights, active={n: w != 0 for n, w in weights.items()}, seed=seed)
        return 100 * float((logits.argmax(1) == batch.labels).double().mean())

    return Judge(accuracy, randomness.generator(setup.seed, "judge", "draws", state.epoch), setup.judge_loader.steps)
