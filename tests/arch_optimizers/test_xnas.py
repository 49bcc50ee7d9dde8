"""XNAS wipes out exactly what cannot win any more."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from archgrad.arch_optimizers import XNAS, ArchState, ExponentiatedGradient
from archgrad.errors import UserError

STEPS = 12
Alpha = dict[str, Tensor]
every_seed = pytest.mark.parametrize("seed", range(8))


def start(rows: int = 3, choices: int = 5) -> Alpha:
    return {"cell": torch.full((rows, choices), 1 / choices, dtype=torch.float64)}


def gradients(seed: int, size: float = 3.0) -> list[Alpha]:
    generator = torch.Generator().manual_seed(seed)
    slopes = size * torch.randn(STEPS, 3, 5, generator=generator, dtype=torch.float64)
    return [{"cell": slope} for slope in slopes]


def walked(member: XNAS, slopes: list[Alpha], alpha: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
    for slope in slopes:
        alpha, state = member.step(alpha, slope, state)
    return alpha, state


def for_one(choice: int, row: int, bound: float) -> Alpha:
    """The best that can happen to one choice of one row."""
    slope = torch.full((3, 5), bound, dtype=torch.float64)
    slope[row, choice] = -bound
    return {"cell": slope}


def test_the_learning_rate_is_the_optimal_one_of_each_row() -> None:
    alpha = {"cell": torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]], dtype=torch.float64)}
    gradient = {"cell": torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 3, dtype=torch.float64)}
    member = XNAS(bound=2.0)
    moved, _ = member.step(alpha, gradient, member.init(alpha, 50))
    for row, choices in enumerate((4, 2)):
        rate = math.sqrt(2 * math.log(choices) / (50 * 2.0**2))
        ratio = (moved["cell"][row, 1] / moved["cell"][row, 0]).item()
        assert math.log(ratio) == pytest.approx(rate)
    assert moved["cell"][2].tolist() == [1.0, 0.0, 0.0, 0.0]


@every_seed
def test_without_wipe_out_and_within_the_bound_it_is_exponentiated_gradient(seed: int) -> None:
    member, plain = XNAS(lr=0.1, bound=100.0, wipe_out=False), ExponentiatedGradient(lr=0.1, floor=0.0)
    alpha, _ = walked(member, gradients(seed), start(), member.init(start(), STEPS))
    expected, state = start(), plain.init(start(), STEPS)
    for slope in gradients(seed):
        expected, state = plain.step(expected, slope, state)
    torch.testing.assert_close(alpha["cell"], expected["cell"], rtol=1e-10, atol=1e-14)


@every_seed
def test_gradients_are_clipped(seed: int) -> None:
    member = XNAS(lr=0.1, bound=0.5, wipe_out=False)
    clipped = [{"cell": slope["cell"].clamp(-0.5, 0.5)} for slope in gradients(seed)]
    alpha, _ = walked(member, gradients(seed), start(), member.init(start(), STEPS))
    total = torch.stack([slope["cell"] for slope in clipped]).sum(0)
    torch.testing.assert_close(alpha["cell"], (-0.1 * total).softmax(-1), rtol=1e-10, atol=1e-14)


@every_seed
@pytest.mark.parametrize("lr", [None, 0.3])
def test_exactly_what_cannot_win_any_more_is_wiped_out(seed: int, lr: float | None) -> None:
    """After each step, give every choice the luckiest future: it ends as the best if and only if it was kept."""
    member, keeping = XNAS(lr), XNAS(lr, wipe_out=False)
    alpha, state = start(), member.init(start(), STEPS)
    whole, whole_state = start(), keeping.init(start(), STEPS)
    wiped = torch.zeros(3, 5, dtype=torch.bool)
    for step, slope in enumerate(gradients(seed), start=1):
        alpha, state = member.step(alpha, slope, state)
        whole, whole_state = keeping.step(whole, slope, whole_state)
        assert (wiped <= (alpha["cell"] == 0)).all(), "what is wiped out stays so"
        wiped = alpha["cell"] == 0
        for row in range(3):
            for choice in range(5):
                future = [for_one(choice, row, member.bound)] * (STEPS - step)
                end = walked(keeping, future, whole, whole_state)[1]["log_weights"]["cell"][row]
                behind = (end.max() - end[choice]).item()
                if wiped[row, choice]:
                    assert behind > 0, "a choice that could have won was wiped out"
                else:
                    assert behind < 1e-9, "a choice that cannot win was kept"
    assert wiped.any(), "the gradients of this test should decide something"


def test_a_choice_returns_from_beyond_the_smallest_float() -> None:
    """θ is 0 in float32 after 1000 bad steps, but the choice is kept, and 1001 good ones make it the best."""
    alpha = {"cell": torch.tensor([[0.5, 0.5]])}
    member = XNAS(lr=1.0)
    state = member.init(alpha, 2001)
    slope = torch.tensor([[-1.0, 1.0]])
    alpha, state = walked(member, [{"cell": slope}] * 1000, alpha, state)
    assert alpha["cell"].tolist() == [[1.0, 0.0]]
    alpha, state = walked(member, [{"cell": -slope}] * 1001, alpha, state)
    assert alpha["cell"].tolist() == [[0.0, 1.0]]


def test_one_step_more_than_was_said_is_refused() -> None:
    member = XNAS()
    alpha, state = walked(member, gradients(0)[:2], start(), member.init(start(), 2))
    with pytest.raises(UserError, match=r"already taken all the steps .* give init.. the number"):
        member.step(alpha, gradients(0)[2], state)
