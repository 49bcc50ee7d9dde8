"""Modes that a backward pass opens again."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from archgrad.autodiff.forward_mode import save_modes
from archgrad.autodiff.frozen_activations import ActivationPattern


def test_a_pattern_is_read_again_from_where_it_was() -> None:
    x, pattern = torch.tensor([-1.0, 1.0]), ActivationPattern()
    found = []

    def two() -> torch.Tensor:
        first = F.relu(x)
        found.append(save_modes())
        return first + F.relu(-x)

    pattern.evaluate(two)
    with found[0]():  # while it was recorded: decided again
        assert F.relu(x).tolist() == [0.0, 1.0]
    pattern.evaluate(two)
    for _ in range(2):  # each time from the same place: the second ReLU passed the first unit
        with found[1]():
            assert F.relu(torch.tensor([5.0, 5.0])).tolist() == [5.0, 0.0]
    assert pattern.evaluate(two).tolist() == [1.0, 1.0]
