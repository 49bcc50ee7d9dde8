from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from archgrad.errors import UserError
from archgrad.parts.knobs import with_settings
from archgrad.training.weight_training import WeightTraining


@pytest.mark.parametrize("epochs", [1, 5, 50])
def test_the_schedule_is_the_cosine_of_pytorch(epochs: int) -> None:
    settings = WeightTraining(epochs=epochs)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs, settings.lr_min)
    for epoch in range(epochs):
        assert settings.lr_at(epoch) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        schedule.step()
    assert settings.lr_at(0) == settings.lr
    assert settings.lr_at(epochs) == pytest.approx(settings.lr_min)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("lr", 0.0, "a number greater than 0"),
        ("lr_min", -0.1, "a number of 0 or more"),
        ("momentum", -0.1, "a number from 0 to less than 1"),
        ("weight_decay", float("nan"), "a number of 0 or more"),
        ("epochs", 0, "at least 1 and a whole number"),
    ],
)
def test_impossible_settings_are_explained(name: str, value: float, wanted: str) -> None:
    with pytest.raises(UserError, match=rf"weights\.{name} is {value}; it must be {wanted}"):
        dataclasses.replace(WeightTraining(), **{name: value})


def test_nesterov_needs_momentum() -> None:
    with pytest.raises(UserError, match=r"weights\.nesterov needs weights\.momentum greater than 0"):
        WeightTraining(momentum=0.0, nesterov=True)


@pytest.mark.parametrize(("first", "last"), [(3e-4, 81e-4), (81e-4, 3e-4), (0.0, 1e-3), (1e-3, 0.0)])
def test_the_weight_decay_moves_linearly_over_the_epochs(first: float, last: float) -> None:
    settings = WeightTraining(weight_decay=first, weight_decay_end=last, epochs=4)
    quarter = (last - first) / 4
    assert [settings.weight_decay_at(epoch) for epoch in range(5)] == pytest.approx(
        [first, first + quarter, first + 2 * quarter, first + 3 * quarter, last]
    )


def test_the_weight_decay_is_constant_by_default() -> None:
    settings = WeightTraining(weight_decay=0.1 + 0.2)
    assert {settings.weight_decay_at(epoch) for epoch in range(50)} == {0.1 + 0.2}


# --- other optimizers than SGD --------------------------------------------------------------------------------------


class SignDescent(torch.optim.Optimizer):
    """Lion without its second moment, as a user would write it."""

    def __init__(self, params: Any, lr: float = 1e-3, weight_decay: float = 0.0, beta: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "beta": beta})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in (one for one in group["params"] if one.grad is not None):
                state = self.state[weight]
                state["taken"] = state.get("taken", 0) + 1
                mean = state.setdefault("mean", torch.zeros_like(weight)).lerp_(weight.grad, 1 - group["beta"])
                weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(mean.sign(), alpha=-group["lr"])


def decoupled(parameters: Any, lr: float, **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=lr, **settings)


@pytest.mark.parametrize(
    ("given", "name", "kind"),
    [
        ("sgd", "sgd", torch.optim.SGD),
        ("AdamW", "adamw", torch.optim.AdamW),
        (torch.optim.RMSprop, "rmsprop", torch.optim.RMSprop),
        (SignDescent, f"{__name__}:SignDescent", SignDescent),
        (decoupled, f"{__name__}:decoupled", torch.optim.AdamW),
        (f"{__name__}:SignDescent", f"{__name__}:SignDescent", SignDescent),
    ],
)
def test_an_optimizer_is_a_name_a_class_or_a_function(given: Any, name: str, kind: type) -> None:
    settings = WeightTraining(optimizer=given, lr=0.5, weight_decay=0.25)
    made = settings.make_optimizer([torch.zeros(1, requires_grad=True)])
    assert (settings.optimizer, type(made)) == (name, kind)
    assert (made.param_groups[0]["lr"], made.param_groups[0]["weight_decay"]) == (0.5, 0.25)
    assert settings.known_steps == (name if name in ("sgd", "adam", "adamw") else None)


def test_its_settings_are_texts_as_the_command_gives_them() -> None:
    told = {"optimizer": "adamw", "optimizer_settings": "betas=0.9,0.95,amsgrad=true"}
    made = with_settings(WeightTraining(), told, "weights").make_optimizer([torch.zeros(1, requires_grad=True)])
    assert (made.defaults["betas"], made.defaults["amsgrad"]) == ((0.9, 0.95), True)


def test_sgd_keeps_its_momentum_and_takes_further_settings() -> None:
    settings = WeightTraining(momentum=0.5, optimizer_settings=("dampening=0.25",))
    made = settings.make_optimizer([torch.zeros(1, requires_grad=True)])
    assert (made.defaults["momentum"], made.defaults["dampening"]) == (0.5, 0.25)
    assert settings.known_steps is None  # hypergradients know nothing of dampening


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamx"}, "unknown name of an optimizer in torch.optim: 'adamx'; did you mean"),
        (
            {"optimizer": "lbfgs"},
            r"'lbfgs' with lr=0.025 .*a function that evaluates the loss again \(a closure\)",
        ),
        ({"optimizer": "rprop"}, "it has no weight decay; set weights.weight_decay=0"),
        ({"optimizer": "rprop", "weight_decay": 0.0, "weight_decay_end": 0.1}, "it has no weight decay"),
        ({"optimizer": "adamw", "optimizer_settings": ("depth=3",)}, "unexpected keyword argument 'depth'"),
        ({"optimizer": "adamw", "optimizer_settings": ("betas=2", "0.9")}, "Invalid beta parameter at index 0: 2"),
        (
            {"optimizer": "adamw", "optimizer_settings": ("betas",)},
            "optimizer_settings has 'betas'; write name=",
        ),
        ({"optimizer": torch.nn.Linear}, "weights.optimizer 'torch.nn:Linear' .*cannot train the weights"),
        ({"optimizer": lambda parameters, lr: 3}, "makes an object of type int, not an optimizer"),
        ({"optimizer": "nowhere:Optimizer"}, "nowhere:Optimizer cannot be imported"),
    ],
)
def test_an_optimizer_that_cannot_train_weights_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        WeightTraining(**settings)


def test_a_rate_that_would_rise_is_refused() -> None:
    with pytest.raises(UserError, match=r"weights.lr is 0.0001, less than weights.lr_min, 0.001"):
        WeightTraining(lr=1e-4)
    assert WeightTraining(lr=1e-4, lr_min=0).lr_at(49) < 1e-4


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("warmup", [0, 3])
def test_schedules_in_closed_form(schedule: Any, warmup: int) -> None:
    made = WeightTraining(lr=0.5, lr_min=0.1, epochs=10, lr_schedule=schedule, lr_warmup_epochs=warmup)
    for epoch in range(10):
        share = (1 + math.cos(math.pi * epoch / 10)) / 2 if schedule == "cosine" else 1 - epoch / 10
        wanted = 0.5 * (epoch + 1) / 3 if epoch < warmup else 0.1 + 0.4 * share
        assert made.lr_at(epoch) == pytest.approx(wanted, rel=1e-14)


def test_the_tail_of_a_linear_schedule_has_a_smaller_slope() -> None:
    """As on ImageNet: of 250 epochs at 0.5, 245 fall by 0.5 / 245 each, and the last five by a fifth of that."""
    made = WeightTraining(lr=0.5, lr_min=0.0, epochs=250, lr_schedule="linear-tail")
    for epoch in range(245):
        assert made.lr_at(epoch) == pytest.approx(0.5 * (245 - epoch) / 245, rel=1e-12)
    for epoch in range(245, 250):
        assert made.lr_at(epoch) == pytest.approx(0.5 * (250 - epoch) / (245 * 5), rel=1e-12)
    few = WeightTraining(lr=0.5, lr_min=0.1, epochs=10, lr_schedule="linear-tail")
    assert [few.lr_at(epoch) for epoch in (7, 8, 9)] == pytest.approx([0.15, 0.15, 0.125])
    one = WeightTraining(lr=0.5, epochs=1, lr_schedule="linear-tail")
    assert one.lr_at(0) == 0.5


def test_an_exponential_schedule_has_one_factor() -> None:
    made = WeightTraining(lr=0.1, lr_min=0.1 * 0.97**250, epochs=250, lr_schedule="exponential")
    assert [made.lr_at(epoch) for epoch in (0, 1, 249)] == pytest.approx([0.1, 0.097, 0.1 * 0.97**249], rel=1e-12)


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        ({"lr_schedule": "exponential", "lr_min": 0.0}, r"'exponential', which never reaches weights\.lr_min = 0; set"),
        ({"lr_warmup_epochs": 10}, r"weights\.lr_warmup_epochs is 10, but there are only 10 epochs; give fewer"),
        ({"lr_schedule": "step"}, r"weights\.lr_schedule"),
        ({"accumulate": 0}, r"weights\.accumulate is 0; it must be at least 1"),
        ({"ema_decay": 1.0}, r"weights\.ema_decay is 1\.0; it must be a number from 0 to less than 1"),
    ],
)
def test_wrong_settings_of_a_training_are_explained(wrong: dict[str, Any], wanted: str) -> None:
    with pytest.raises(UserError, match=wanted):
        WeightTraining(epochs=10, **wrong)
