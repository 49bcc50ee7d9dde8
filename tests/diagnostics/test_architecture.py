from __future__ import annotations

import math

import pytest
import torch
from varied_spaces import VARIED_SPACES

from archgrad.diagnostics import Snapshot, entropy, movement, operations, skip_connections
from archgrad.discretizers import Argmax
from archgrad.spaces import SPACES, NASBench201, SearchSpace


def snapshot_of(space: SearchSpace, probabilities: dict[str, torch.Tensor]) -> Snapshot:
    return Snapshot(space, probabilities, Argmax().select(space, probabilities))


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_every_measure_gives_plain_numbers(name: str) -> None:
    space = SPACES.constructor(name)()
    generator = torch.Generator().manual_seed(0)
    rows = {b.name: torch.rand(b.shape, generator=generator) * b.mask for b in space.blocks}
    snapshot = snapshot_of(space, {key: value / value.sum(-1, keepdim=True) for key, value in rows.items()})
    for measure in (entropy, operations, skip_connections, movement):
        measured = measure(snapshot)
        assert all(isinstance(value, int | float) and math.isfinite(value) for value in measured.values())


@pytest.mark.parametrize(("name", "choices"), [("nasbench201", 5), ("darts", 8), ("s2", 2), ("s3", 3)])
def test_entropy_is_the_logarithm_of_the_choices_when_undecided(name: str, choices: int) -> None:
    space = SPACES.constructor(name)()
    undecided = {b.name: b.mask / b.mask.sum(-1, keepdim=True) for b in space.blocks}
    assert entropy(snapshot_of(space, undecided))["entropy"] == pytest.approx(math.log(choices))


def test_entropy_is_zero_when_decided() -> None:
    decided = {"cell": torch.eye(5)[[1, 1, 3, 2, 1, 4]]}
    snapshot = snapshot_of(NASBench201(), decided)
    assert entropy(snapshot) == {"entropy": 0.0, "entropy_max": pytest.approx(math.log(5)), "lead": 1.0}
    assert skip_connections(snapshot) == {"skips": 3, "skip_share": 0.5, "skip_weight": 0.5}


def test_entropy_is_the_mean_over_rows() -> None:
    half = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0])
    rows = torch.stack([half, half, *torch.eye(5)[:4]])
    assert entropy(snapshot_of(NASBench201(), {"cell": rows}))["entropy"] == pytest.approx(math.log(2) / 3)
