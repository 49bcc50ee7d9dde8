"""bfloat16 by autocast, on the CPU: what is lowered, what stays, and that it resumes to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import dying_at, same_bits
from torch import Tensor
from varied_spaces import small_space

import archgrad as ag
from archgrad.autodiff.vectors import cosine
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.errors import UserError
from archgrad.loop import SearchResult
from archgrad.loop.experiment import Experiment
from archgrad.loop.precision import check_precision
from archgrad.loop.state import SearchState
from archgrad.loop.steps import pass_weights

DATA = ag.data.digits(limit=60)
SPACE = ag.spaces.NASBench201(channels=4, cells_per_stage=1)
CPU = torch.device("cpu")


def run(folder: Path | None = None, method: Any = "darts", **settings: Any) -> SearchResult:
    settings = {"epochs": 2, "batch_size": 15, "held_out": 0.1, "seed": 1, **settings}
    return ag.search(SPACE, method, DATA, out=folder, **settings)


@pytest.mark.parametrize("method", ["darts", "gaea-simultaneous"])
def test_a_search_in_bfloat16_resumes_to_the_bit(method: str, tmp_path: Path) -> None:
    whole = run(method=method, precision="bf16")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, method, precision="bf16", callbacks=dying_at(3))
    resumed = ag.resume(tmp_path, data=DATA)
    assert same_bits(resumed, whole)
    for value in (*resumed.supernet.state_dict().values(), *resumed.alpha.values()):
        assert value.dtype == torch.float32
        assert value.isfinite().all()
    assert not same_bits(whole, run(method=method))


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


@pytest.mark.parametrize("space", ["nasbench201", "darts", "nasbench1shot1-1"])
def test_gradients_are_close_to_those_in_32_bit(space: str) -> None:
    """All kernels with own gradients (depthwise convolutions, pooling, mixing) know autocast."""
    made = small_space(space, channels=8)
    exact, lower = gradients_in("32", made), gradients_in("bf16", made)
    for one, other in zip(exact, lower, strict=True):
        assert cosine(one, other) > 0.9
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


# --- what is refused ------------------------------------------------------------------------------------------------


def test_an_unknown_precision_is_a_sentence() -> None:
    with pytest.raises(UserError, match="precision: '16'"):
        SearchConfig(precision="16")


def test_a_device_without_the_precision_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **more: Any) -> Any:
        raise RuntimeError("not implemented for 'BFloat16'")

    monkeypatch.setattr(torch, "conv2d", refuse)
    with pytest.raises(UserError, match=r"precision is 'bf16', which PyTorch cannot compute on cpu here .*; choose 32"):
        check_precision("bf16", CPU)


def test_another_precision_does_not_resume_and_earlier_runs_had_32_bit(tmp_path: Path) -> None:
    run(tmp_path, epochs=1, precision="bf16")
    with pytest.raises(UserError, match="its precision is 'bf16', this one's is the default"):
        run(tmp_path, epochs=1, resume=True)
    setup, _ = state_of("32")
    earlier = {name: value for name, value in setup.identity.data.items() if name != "precision"}
    setup.identity.check(earlier, tmp_path)
    with pytest.raises(UserError, match="its precision is the default, this one's is 'bf16'"):
        state_of("bf16")[0].identity.check(earlier, tmp_path)
