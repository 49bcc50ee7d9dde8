"""Lower precisions by autocast, on the CPU: what is lowered, what stays, and that it resumes to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import Event, StepFinished, listening
from torch import Tensor

import archgrad as ag
from archgrad.autodiff.vectors import cosine
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.errors import UserError
from archgrad.loop import SearchResult, precision
from archgrad.loop.experiment import Experiment
from archgrad.loop.precision import LossScale, check_precision, lowered
from archgrad.loop.state import SearchState
from archgrad.loop.steps import pass_weights

DATA = ag.data.digits(limit=60)
SPACE = ag.spaces.NASBench201(channels=4, cells_per_stage=1)
CPU = torch.device("cpu")


def half_works() -> bool:
    try:
        check_precision("16", CPU)
    except UserError:
        return False
    return True


LOWER = ["bf16", pytest.param("16", marks=pytest.mark.skipif(not half_works(), reason="no float16 on this CPU"))]


def run(folder: Path | None = None, method: Any = "darts", **settings: Any) -> SearchResult:
    settings = {"epochs": 2, "batch_size": 15, "held_out": 0.1, "seed": 1, **settings}
    return ag.search(SPACE, method, DATA, out=folder, **settings)


def tensors_of(result: SearchResult) -> dict[str, Tensor]:
    return {**result.supernet.state_dict(), **result.alpha}


@pytest.mark.parametrize("name", LOWER)
@pytest.mark.parametrize("method", ["darts", "gaea-simultaneous"])
def test_a_search_in_lower_precision_resumes_to_the_bit(method: str, name: str, tmp_path: Path) -> None:
    def die(event: Event) -> None:
        if isinstance(event, StepFinished) and event.state.index == 3:
            raise KeyboardInterrupt

    whole = run(method=method, precision=name)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, method, precision=name, callbacks=listening(die))
    resumed = ag.resume(tmp_path, data=DATA)
    for key, value in tensors_of(resumed).items():
        assert torch.equal(value, tensors_of(whole)[key]), key
        assert value.dtype == torch.float32
        assert value.isfinite().all()
    assert all(isinstance(record["train_loss"], float) for record in resumed.history)
    assert resumed.genotype == whole.genotype
    other = tensors_of(run(method=method))
    assert any(not torch.equal(value, other[key]) for key, value in tensors_of(whole).items())


def state_of(name: str, method: str = "darts", space: Any = SPACE) -> tuple[Experiment, SearchState]:
    config = SearchConfig(space=space, method=method, data=DATA, epochs=2, batch_size=15, precision=name)
    setup = Experiment.of(resolve(config), DATA)
    torch.manual_seed(0)
    return setup, setup.initial_state()


def gradients_in(name: str, space: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    setup, state = state_of(name, space=space)
    stepper, batch = setup.stepper(state), setup.step_batches(0).inner(0)
    passed = pass_weights(stepper.losses, state, stepper.unperturbed(state), batch, (), True)
    return dict(passed.gradient), dict(passed.mixture_gradients)


@pytest.mark.parametrize("name", LOWER)
@pytest.mark.parametrize("space", ["nasbench201", "darts", "nasbench1shot1-1"])
def test_gradients_are_close_to_those_in_32_bit(space: str, name: str) -> None:
    """All kernels with own gradients (depthwise convolutions, pooling, mixing) know autocast."""
    made = ag.spaces.SPACES.create(space)
    made = replace(made, channels=8, **{made.depth_knob: 3 if made.depth_knob == "cells" else 1})
    exact, lower = gradients_in("32", made), gradients_in(name, made)
    for one, other in zip(exact, lower, strict=True):
        assert cosine(one, other) > (0.9 if name == "bf16" else 0.99)
        assert all(value.dtype == torch.float32 for value in other.values())


@pytest.mark.parametrize("method", ["darts-2nd", "amended", "lambda-darts"])
def test_second_derivatives_and_differences_stay_in_32_bit(method: str) -> None:
    seen: list[str] = []
    setup, state = state_of("bf16", method)
    stepper, batches = setup.stepper(state), setup.step_batches(0)

    def spied(kind: str, original: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            seen.append(kind)
            return original(*given, **more)

        return call

    losses = stepper.losses
    assert losses.full is not None
    losses = replace(losses, forward=spied("lower", losses.forward), full=spied("full", losses.full))
    stepper = replace(stepper, losses=losses)
    stepper.architecture_step(state, batches)
    architecture = list(seen)
    seen.clear()
    state.step = 1
    stepper.weight_step(state, batches.inner(0))
    weights = set(seen)
    if method == "lambda-darts":
        assert weights == {"full"}  # differences of ∂L1/∂w
        assert set(architecture) == {"lower"}
    else:
        assert weights == {"lower"}
        assert architecture.count("full") >= 2  # the differences; ∂L2/∂w is in the lower precision
        assert "lower" in architecture


def test_measured_curvature_is_in_32_bit() -> None:
    setup, state = state_of("bf16")
    assert setup.stepper(state).in_full_precision().losses.full is None
    assert setup.stepper(state).losses.full is not None
    assert state_of("32")[0].stepper(state).losses.full is None


# --- the loss scale of float16 --------------------------------------------------------------------------------------


def test_a_scale_changes_no_gradient_outside() -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    x = torch.randn(4, 3)

    def gradient(scale: Tensor | None) -> Tensor:
        forward = lowered(lambda weights, images, mixture: images @ weights["w"] * mixture["p"], "bf16", CPU)
        output = forward({"w": weight}, x, {"p": torch.ones(())}, scale=scale)
        return torch.autograd.grad(output.square().sum(), weight)[0]

    assert torch.equal(gradient(None), gradient(torch.tensor(1024.0)))


def test_the_scale_falls_with_overflows_and_grows_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_INTERVAL", 3)
    scale = LossScale.first(CPU)
    fine, over = [torch.ones(2)], [torch.ones(1), torch.tensor([1.0, torch.inf])]
    assert scale.overflowed(over)
    assert scale.value == 2.0**15
    for expected in (2.0**15, 2.0**15, 2.0**16, 2.0**16):
        assert not scale.overflowed(fine)
        assert scale.value == expected
    assert [scale.overflowed(over) for _ in range(18)] == [True] * 16 + [False] * 2  # then it is divergence
    assert scale.value == 1.0


@pytest.mark.skipif(not half_works(), reason="no float16 on this CPU")
def test_a_step_that_overflows_moves_nothing_but_lowers_the_scale() -> None:
    setup, state = state_of("16")
    assert state.loss_scale is not None
    state.loss_scale.value = torch.tensor(2.0**60)
    before = {name: value.clone() for name, value in {**state.weights, **state.alpha}.items()}
    batches = setup.step_batches(0)
    setup.stepper(state).architecture_step(state, batches)
    setup.stepper(state).weight_step(state, batches.inner(0))
    assert state.loss_scale.value == 2.0**58
    for name, value in {**state.weights, **state.alpha}.items():
        assert torch.equal(value, before[name]), name


@pytest.mark.skipif(not half_works(), reason="no float16 on this CPU")
def test_the_scale_is_in_the_checkpoint_and_a_forged_one_is_refused() -> None:
    _, state = state_of("16")
    assert state.loss_scale is not None
    state.loss_scale.value = torch.tensor(8.0)
    saved = {**state.tensors(), "loss_scale": dict(state.loss_scale.tensors)}
    state.loss_scale.value = torch.tensor(4.0)
    state.restore(saved)
    assert state.loss_scale.value == 8.0
    saved["loss_scale"]["value"] = torch.ones(7)
    with pytest.raises(UserError, match="its loss_scale 'value' has"):
        state.restore(saved)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_an_unknown_precision_is_a_sentence() -> None:
    with pytest.raises(UserError, match="precision: '64'"):
        SearchConfig(precision="64")


def test_a_device_without_the_precision_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **more: Any) -> Any:
        raise RuntimeError("not implemented for 'Half'")

    monkeypatch.setattr(torch, "conv2d", refuse)
    with pytest.raises(UserError, match=r"precision is '16', which PyTorch cannot compute on cpu here .*; choose 32"):
        check_precision("16", CPU)


def test_another_precision_does_not_resume_and_earlier_runs_had_32_bit(tmp_path: Path) -> None:
    run(tmp_path, epochs=1, precision="bf16")
    with pytest.raises(UserError, match="its precision is 'bf16', this one's is the default"):
        run(tmp_path, epochs=1, resume=True)
    setup, _ = state_of("32")
    earlier = {name: value for name, value in setup.identity.data.items() if name != "precision"}
    setup.identity.check(earlier, tmp_path)
    with pytest.raises(UserError, match="its precision is the default, this one's is 'bf16'"):
        state_of("bf16")[0].identity.check(earlier, tmp_path)
