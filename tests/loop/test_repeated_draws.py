"""What operations draw globally is the same in every evaluation of a step, and measuring draws nothing."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from same_bits import same_bits
from torch import Tensor, nn

import archgrad as ag
from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import cosine, norm
from archgrad.callbacks import Callback, LayerAgreement
from archgrad.errors import UserError
from archgrad.operations import Operation, Site
from archgrad.regularizers import LayerAlignment, PerturbStep, Regularizer, WeightStep
from archgrad.training.schedule import Schedule

DATA = ag.data.digits(limit=64)
SPACE = ag.spaces.NASBench201(channels=4, cells_per_stage=1)


class NoisyVectors(Operation):
    """What a user may write: it draws from the global generator, and counts what it has seen in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        return F.dropout(x, 0.5)


@pytest.fixture(autouse=True)
def noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(site: Site) -> Operation:
        return NoisyVectors()

    monkeypatch.setitem(sys.modules["archgrad.spaces.nasbench201"].OPERATIONS, "skip_connect", made)


def searched(*parts: Regularizer, schedule: Schedule | None = None, **settings: Any) -> ag.SearchResult:
    method = replace(ag.recipes.darts(), regularizers=parts, schedule=schedule or Schedule())
    return ag.search(SPACE, method, DATA, epochs=1, batch_size=16, **{"seed": 0, **settings})


@dataclass(frozen=True)
class Kept(LayerAlignment):
    """Keeps what it would add, and adds nothing."""

    found: list[Weights] = field(default_factory=list)

    def weight_gradient(self, step: WeightStep) -> None:
        self.found.append(super().weight_gradient(step) or {})


def test_differences_are_of_one_draw() -> None:
    """Of two draws they would be inversely proportional to ε."""
    kinds: list[tuple[Any, float]] = [("central", 1e-2), ("central", 2e-3), ("interleaved", 1e-2)]
    parts = [Kept(schedule="constant", difference=kind, eps=eps) for kind, eps in kinds]
    for part in parts:
        searched(part, standard_callbacks=False)
    for first, *others in zip(*(part.found for part in parts), strict=True):
        assert norm(first) > 0
        for other in others:
            assert 0.95 < norm(other) / norm(first) < 1.05
            assert cosine(first, other) > 0.99


@dataclass(frozen=True)
class Asks(Regularizer):
    """Evaluates the loss at the same place again and again, and changes nothing."""

    losses: list[float] = field(default_factory=list)

    def perturb(self, step: PerturbStep) -> dict[str, Tensor]:
        self.losses.extend(step.loss(step.mixture).item() for _ in range(2))
        return step.mixture

    def weight_gradient(self, step: WeightStep) -> None:
        self.losses.append(step.loss(step.weights, step.mixture).item())


def buffers_of(net: nn.Module) -> list[float]:
    return [buffer.item() for buffer in net.buffers()]


def test_asking_for_the_loss_again_leaves_no_trace() -> None:
    asks = Asks()
    plain, asked = searched(standard_callbacks=False), searched(asks, standard_callbacks=False)
    assert plain.history[0]["train_loss"] == asked.history[0]["train_loss"]
    assert buffers_of(plain.supernet) == buffers_of(asked.supernet)
    assert all(torch.equal(asked.alpha[name], value) for name, value in plain.alpha.items())
    steps = [asks.losses[start : start + 3] for start in range(0, len(asks.losses), 3)]
    assert len(steps) == 2
    assert all(max(step) - min(step) < 1e-5 for step in steps)


def test_measuring_the_layers_at_rest_changes_nothing() -> None:
    warm = Schedule(warmup_epochs=1)
    method = replace(ag.recipes.darts(), schedule=warm)
    settings = {"epochs": 2, "batch_size": 16, "seed": 0}
    plain = ag.search(SPACE, method, DATA, standard_callbacks=False, on_collapse="ignore", **settings)
    measured = ag.search(
        SPACE, method, DATA, standard_callbacks=False, callbacks=[LayerAgreement()], on_collapse="ignore", **settings
    )
    assert "alignment" in measured.history[0]
    assert [record["train_loss"] for record in plain.history] == [record["train_loss"] for record in measured.history]
    assert buffers_of(plain.supernet) == buffers_of(measured.supernet)


@pytest.mark.parametrize("knobs", [{"difference": "exact"}, {"objective": "outer"}])
def test_compiling_what_differentiates_twice_is_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="LayerAlignment as it is set differentiates the supernet twice"):
        searched(LayerAlignment(**knobs), compile=True)


def test_two_threads_find_what_each_finds_alone(caplog: pytest.LogCaptureFixture) -> None:
    def found(seed: int) -> ag.SearchResult:
        return ag.search(SPACE, "darts", DATA, epochs=1, batch_size=16, seed=seed, standard_callbacks=False)

    alone = [found(seed) for seed in (0, 1)]
    before = torch.get_rng_state()
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(found, (0, 1)))
    assert torch.equal(before, torch.get_rng_state())
    assert all(map(same_bits, alone, together))
    assert "another search is running in this process" in caplog.text


def test_a_callback_may_search_inside_a_search() -> None:
    class Nested(Callback):
        def on_epoch_end(self, search: Any, record: Any) -> None:
            searched(seed=1)

    nested = searched(callbacks=[Nested()])
    assert torch.equal(nested.alpha["cell"], searched().alpha["cell"])


def test_blocks_are_named_once() -> None:
    with pytest.raises(UserError, match="the blocks to align are cell, cell; name each of them once"):
        searched(LayerAlignment(blocks=("cell", "cell")))
