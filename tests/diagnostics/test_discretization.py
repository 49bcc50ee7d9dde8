from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from experiments import experiment_of
from torch import Tensor

import archgrad as ag
from archgrad.callbacks import DiscretizationGap
from archgrad.config import SearchConfig
from archgrad.data import measure
from archgrad.diagnostics import Snapshot, measure_discretization
from archgrad.discretizers import SupernetEvaluation
from archgrad.errors import UserError
from archgrad.loop.evaluation import supernet_evaluation
from archgrad.training.schedule import Level

SPACE = ag.spaces.NASBench201(channels=4, cells_per_stage=1)
OPTIONS = ag.SupernetOptions(partial=2, edge_weights=True)
DATA = ag.data.digits(limit=80)


def snapshot(evaluation: SupernetEvaluation | None, last: bool = True) -> Snapshot:
    probabilities = ag.relaxations.Simplex().init(SPACE.searched_blocks(OPTIONS), torch.Generator())
    genotype = ag.discretizers.Argmax().select(SPACE, probabilities)
    return Snapshot(SPACE, probabilities, genotype, evaluation, last)


def test_it_compares_the_mixture_with_the_one_hot_on_the_same_batches() -> None:
    asked: list[tuple[dict[str, Tensor], int]] = []

    def accuracy(mixture: Mapping[str, Tensor], number: int) -> float:
        asked.append((dict(mixture), number))
        return 10.0 * number if bool((mixture["cell"] == 1).any()) else 50.0 + number

    seen = snapshot(SupernetEvaluation(accuracy, torch.Generator(), batches=3))
    assert DiscretizationGap().measure_end(seen) == {"mixture_accuracy": 51.0, "discrete_accuracy": 10.0}
    assert [number for _, number in asked] == [0, 1, 2, 0, 1, 2]
    one_hot = SPACE.one_hot(seen.genotype, OPTIONS)
    for name, weights in seen.probabilities.items():
        torch.testing.assert_close(asked[0][0][name], weights.expand(3, -1, -1))
        assert torch.equal(asked[3][0][name], one_hot[name])
    assert measure_discretization(seen, 1) == {"mixture_accuracy": 50.0, "discrete_accuracy": 0.0}


def test_it_is_measured_once_at_the_end() -> None:
    with pytest.raises(UserError, match="the snapshot has no evaluation"):
        DiscretizationGap().measure_end(snapshot(None))
    result = ag.search(
        ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.recipes.gaea(), DATA, epochs=2, batch_size=20
    )
    assert ["discrete_accuracy" in record for record in result.history] == [False, True]


@pytest.mark.parametrize("level", ["bilevel", "single"])
def test_the_judge_is_the_supernet_on_the_images_of_the_architecture(level: Level) -> None:
    method = replace(ag.recipes.gaea(level=level), supernet=OPTIONS)
    setup = experiment_of(
        ag.spaces.NASBench201(channels=4, cells_per_stage=1),
        method,
        DATA,
        SearchConfig(batch_size=16, seed=5, held_out=0),
    )
    torch.manual_seed(0)
    state = setup.initial_state()
    evaluation = supernet_evaluation(setup, state)
    assert evaluation.batches == (40 if level == "bilevel" else 80) // 16
    batch = setup.evaluation_loader.batch(1)
    assert set(setup.evaluation_loader.indices.tolist()) == set(setup.arch_loader.indices.tolist())
    assert setup.evaluation_loader.normalization == measure(DATA, setup.weight_loader.indices)
    for mixture in (SPACE.one_hot(state.genotype, OPTIONS), {n: v.expand(3, -1, -1) for n, v in state.alpha.items()}):
        logits = state.supernet(batch.inputs, mixture)
        expected = 100 * (logits.argmax(1) == batch.targets).float().mean().item()
        assert evaluation.metric(mixture, 1) == pytest.approx(expected)
        assert evaluation.metric(mixture, 1) == evaluation.metric(mixture, 1)
