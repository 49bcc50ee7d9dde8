"""Any optimizer of PyTorch trains the weights: resumed to the bit, refused where a hypergradient does not know it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import dying_at, same_bits
from tiny_space import Tiny

import archgrad as ag
from archgrad.discretizers import Perturbation
from archgrad.errors import UserError
from archgrad.hypergradients import HYPERGRADIENTS, Hypergradient, Neumann
from archgrad.loop import SearchResult, measuring
from archgrad.loop.state import SearchState

DATA = ag.data.digits(limit=60)
SPACE = Tiny(channels=2, cells_per_stage=1)


class Counted(torch.optim.SGD):
    """An optimizer with a count in its parameter groups, a whole number in a tensor, and a state that comes later."""

    def step(self, closure: Any = None) -> Any:
        (group,) = self.param_groups
        group["taken"] = group.get("taken", 0) + 1
        for weight in (one for one in group["params"] if one.grad is not None):
            state = self.state[weight]
            state["count"] = state.get("count", torch.tensor(0)) + 1
            if group["taken"] > 2:
                weight.grad = weight.grad / (1 + group["taken"] / 50 + state["count"].double().item() / 50)
                state["late"] = weight.grad.clone()
        return super().step(closure)

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, momentum=0.5)
        self.param_groups[0]["taken"] = 0


def run(folder: Path | None = None, method: ag.Method | None = None, **settings: Any) -> SearchResult:
    method = ag.recipes.darts() if method is None else method
    return ag.search(
        SPACE, method, DATA, out=folder, **{"epochs": 2, "batch_size": 15, "held_out": 0, "seed": 1, **settings}
    )


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw": {"lr": 1e-3, "optimizer_settings": ("betas=0.9", "0.95")},
    "adam": {"lr": 1e-3, "optimizer_settings": ("amsgrad=true",)},
    "rmsprop": {"lr": 1e-3, "optimizer_settings": ("momentum=0.5", "centered=true")},
    "adagrad": {"lr": 1e-2},
    "nadam": {"lr": 1e-3},
    "radam": {"lr": 1e-3},
    "asgd": {"lr": 1e-2},
    "rprop": {"lr": 1e-3, "weight_decay": 0.0},
    "adafactor": {"lr": 1e-2},
    f"{__name__}:Counted": {"lr": 1e-2},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_resumes_to_the_bit(name: str, tmp_path: Path) -> None:
    weights = ag.WeightTraining(optimizer=name, **OPTIMIZERS[name])
    whole = run(weights=weights)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, weights=weights, callbacks=dying_at(3))
    resumed = ag.resume(tmp_path, space=SPACE, data=DATA)  # the optimizer comes from config.toml
    assert same_bits(whole, resumed)
    assert all(value.isfinite().all() for value in resumed.supernet.state_dict().values())


def test_the_steps_are_those_of_the_optimizer() -> None:
    plain, other = run(), run(weights=replace(SPACE.weights, optimizer="adamw"))
    assert not same_bits(plain, other)
    assert same_bits(plain, run(weights=replace(SPACE.weights, optimizer=torch.optim.SGD)))


def test_another_optimizer_does_not_resume(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, callbacks=dying_at(2))
    with pytest.raises(UserError, match=r"weights\.optimizer is 'sgd', this one's is 'adamw'"):
        run(tmp_path, weights=replace(SPACE.weights, optimizer="adamw"), resume=True)


def test_a_discretizer_that_tunes_does_so_with_the_same_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[SearchState] = []
    original = measuring._copied
    monkeypatch.setattr(measuring, "_copied", lambda *given: copies.append(original(*given)) or copies[-1])
    weights = ag.WeightTraining(optimizer="adamw", lr=1e-3)
    run(method=replace(ag.recipes.darts(), discretizer=Perturbation(tune_epochs=1)), weights=weights, epochs=1)
    assert [type(copy.optimizer) for copy in copies] == [torch.optim.AdamW]
    assert copies[0].optimizer.state


REFUSED = {
    "unrolled": ["rmsprop"], "truncated-reverse": ["rmsprop"],
    "neumann": ["adamw", "rmsprop"], "soba": ["adamw", "rmsprop"],
}  # fmt: skip


@pytest.mark.usefixtures("_trusted_differences")
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "rmsprop"])
@pytest.mark.parametrize("name", [name for name in HYPERGRADIENTS if name != "exact-implicit"])
def test_every_hypergradient_works_with_an_optimizer_or_says_why_not(name: str, optimizer: str) -> None:
    member: Hypergradient = HYPERGRADIENTS.create(name)
    method = replace(ag.recipes.darts(), hypergradient=member, name="own")
    weights = ag.WeightTraining(optimizer=optimizer, lr=1e-3)
    if optimizer in REFUSED.get(name, ()):
        known = "sgd, adam, adamw" if "adamw" not in REFUSED[name] else "sgd"
        with pytest.raises(UserError, match=rf"{type(member).__name__} knows only .* of {known}, .* is '{optimizer}'"):
            run(method=method, weights=weights, epochs=1)
        return
    assert all(value.isfinite().all() for value in run(method=method, weights=weights, epochs=1).alpha.values())


@pytest.mark.usefixtures("_trusted_differences")
@pytest.mark.parametrize("lr", [0.01, "auto"])
def test_a_neumann_series_with_a_rate_of_its_own_needs_no_sgd(lr: Any) -> None:
    method = replace(ag.recipes.darts(), hypergradient=Neumann(1, lr=lr), name="own")
    run(method=method, weights=ag.WeightTraining(optimizer="adamw", lr=1e-3), epochs=1)
