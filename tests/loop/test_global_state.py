"""Deterministic kernels on request, and the caller's switches restored."""

from __future__ import annotations

import pytest
import torch
from listening import StepFinished, on

import archgrad as ag
from archgrad.errors import UserError
from archgrad.loop.global_state import own_global_state

CPU = torch.device("cpu")


def switches() -> tuple[bool, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )


@pytest.mark.parametrize("asked", [True, False])
def test_a_search_uses_deterministic_kernels_if_asked(asked: bool) -> None:
    seen: list[tuple[bool, ...]] = []
    look = on(StepFinished, lambda event: seen.append(switches()))
    before = switches()
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=40)
    ag.search(space, "darts", data, epochs=1, batch_size=10, held_out=0, deterministic=asked, callbacks=look)
    assert set(seen) == {(True, False, True, False) if asked else before}
    assert switches() == before


def test_the_switches_are_restored_after_an_error() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    before = switches()
    try:
        with pytest.raises(KeyError), own_global_state(CPU, deterministic=True):
            raise KeyError
        assert switches() == before
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_operation_without_a_deterministic_kernel_is_a_sentence() -> None:
    with (
        pytest.raises(UserError, match="the search cannot be deterministic on cpu: put_ does not have"),
        own_global_state(CPU, deterministic=True),
    ):
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))
    with pytest.raises(RuntimeError, match="another"), own_global_state(CPU, deterministic=True):
        raise RuntimeError("another error")
