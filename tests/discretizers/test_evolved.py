from __future__ import annotations

import pytest
import torch
from tiny_space import Tiny

import archgrad as ag
from archgrad.discretizers import Evolved, SupernetEvaluation
from archgrad.errors import UserError
from archgrad.spaces import DARTS, NASBench201


def evaluation(space: object, wanted: object, asked: list[object]) -> SupernetEvaluation:
    """Return an evaluation whose metric is the number of choices that an architecture shares with the wanted one."""
    target = space.one_hot(wanted)  # type: ignore[attr-defined]

    def metric(mixture: dict[str, torch.Tensor], batch: int) -> float:
        asked.append((batch, *(value.numpy().tobytes() for value in mixture.values())))
        return float(sum((mixture[name][0] * target[name][0]).sum() for name in target))

    return SupernetEvaluation(metric, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("space", [NASBench201(), DARTS()], ids=["nasbench201", "darts"])
def test_evolution_gets_nearer_than_random_search_with_as_many_measurements(space: object) -> None:
    even = {one.name: one.mask / one.mask.sum(-1, keepdim=True) for one in space.blocks}  # type: ignore[attr-defined]
    wanted = Evolved(rounds=1).select(
        space, even, SupernetEvaluation(lambda m, b: 0.0, torch.Generator().manual_seed(9))
    )
    scores = []
    for member in (Evolved(population=20, rounds=12, parents=5, mutation=0.3), Evolved(population=240, rounds=1)):
        asked: list[object] = []
        judge = evaluation(space, wanted, asked)
        scores.append(judge.metric(space.one_hot(member.select(space, even, judge)), 0))  # type: ignore[attr-defined]
        assert len(set(asked[:-1])) == len(asked[:-1])  # each architecture is measured once
        assert len(asked) <= 241
    assert scores[0] > scores[1]


def test_it_needs_a_supernet() -> None:
    with pytest.raises(UserError, match="Evolved measures architectures with a supernet, but got no evaluation"):
        Evolved().select(NASBench201(), {"cell": torch.full((6, 5), 0.2)})


def test_a_search_decides_once_at_its_end() -> None:
    space = Tiny(channels=2, cells_per_stage=1)
    settings = {"discretizer.population": 4, "discretizer.rounds": 2}
    result = ag.search(space, "spos", ag.data.digits(limit=64), epochs=2, batch_size=16, settings=settings)
    assert result.history[0]["genotype"] is None
    assert result.history[1]["genotype"] == str(result.genotype)
    assert result.history[1]["derived_by"] == "accuracy"
