"""The average of the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from listening import Event, StepFinished, listening
from torch import nn

import archgrad as ag
from archgrad.errors import UserError
from archgrad.loop.state import WeightAverage
from tests.workflows.small import tensors, trained


def test_closed_form() -> None:
    """w̄ₜ = w̄₀·∏ dᵢ + Σ (1 − dᵢ)·wᵢ·∏_{j>i} dⱼ."""
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double()
    average = WeightAverage.of(network, 0.5)
    draws = torch.Generator().manual_seed(0)
    seen = [network[0].weight.detach().clone()]
    rates = [min(0.5, (1 + step) / (10 + step)) for step in range(12)]
    for step in range(12):
        with torch.no_grad():
            network[0].weight.copy_(torch.randn(3, 2, generator=draws, dtype=torch.float64))
            network[1].num_batches_tracked.add_(1)
        seen.append(network[0].weight.detach().clone())
        average.update(network, step)
    factors = [1 - rate for rate in rates]
    wanted = sum(
        (value * weight * torch.tensor(rates[number:], dtype=torch.float64).prod()
         for number, (weight, value) in enumerate(zip([1.0, *factors], seen, strict=True))),
        start=torch.zeros(3, 2, dtype=torch.float64),
    )  # fmt: skip
    torch.testing.assert_close(average.tensors["0.weight"], wanted, rtol=0, atol=1e-14)
    assert int(average.tensors["1.num_batches_tracked"]) == 12
    assert rates[0] == 0.1
    assert rates[-1] == 0.5


def test_the_saved_model_is_the_average(tmp_path: Path) -> None:
    averages: list[WeightAverage] = []
    states: list[Any] = []

    def follow(event: Event) -> None:
        if isinstance(event, StepFinished):
            if not averages:  # after the first step: d = 0.1, and the first weights are drawn from the same seed
                averages.append(
                    WeightAverage(0.8, {name: one.clone() for name, one in event.state.average.tensors.items()})
                )
            else:
                averages[0].update(event.state.supernet, event.state.index - 1)
            states.append(event.state)

    settings = {"weights.ema_decay": 0.8}
    found = trained(settings=settings, out=tmp_path, callbacks=listening(follow))
    own, last = tensors(found.model), states[-1].supernet.state_dict()
    for name, value in own.items():
        assert torch.equal(value, averages[0].tensors[f"body.{name}"])
    assert not torch.equal(own["classifier.weight"], last["body.classifier.weight"])
    loaded, images = ag.Model.load(tmp_path), ag.data.digits(limit=30).images
    assert loaded.predict(images) == found.model.predict(images)
    assert found.runs[0].heldout is not None
    assert found.runs[0].heldout["accuracy"] == found.runs[0].history[-1]["heldout_accuracy"]
    assert found.runs[0].heldout["loss"] == pytest.approx(found.runs[0].history[-1]["heldout_loss"], rel=1e-5)


@pytest.mark.parametrize("setting", [{"weights.ema_decay": 0.9}, {"weights.accumulate": 2}])
def test_no_search_takes_what_only_a_training_has(setting: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"weights\.(ema_decay|accumulate) is .*, but a search does not use it; leave"):
        ag.search(ag.spaces.NASBench201(channels=2, cells_per_stage=1), epochs=1, settings=setting)
