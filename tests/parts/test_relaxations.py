"""One suite that every relaxation passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.relaxations import Relaxation, Relaxed, Softmax, spread
from archgrad.spaces import DecisionBlock, Row

MEMBERS: dict[str, Relaxation] = {
    "softmax": Softmax(),
    "softmax-wide": Softmax(init_scale=2.0),
}
every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)

# Rows of unequal length, so that some choices are absent.
BLOCKS = (
    DecisionBlock("normal", 3, (Row(1, 0, ("a", "b", "c")), Row(2, 0, ("a", "b")), Row(2, 1, ("a",)))),
    DecisionBlock("reduce", 1, (Row(1, 0, ("a", "b")), Row(2, 1, ("b", "a")))),
)
Alpha = dict[str, Tensor]


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def alpha_of(member: Relaxation, seed: int = 0) -> Alpha:
    """Return a point of the member's domain, away from the start."""
    alpha = {}
    for block in BLOCKS:
        values = torch.randn(block.shape, generator=stream(seed), dtype=torch.float64)
        if member.domain == "simplex":
            values = values.masked_fill(~block.mask, -torch.inf).softmax(-1)
        alpha[block.name] = values * block.mask
    return alpha


@every_member
def test_the_start_is_a_function_of_the_stream(member: Relaxation) -> None:
    first, same, other = (member.init(BLOCKS, stream(seed)) for seed in (0, 0, 1))
    assert list(first) == ["normal", "reduce"]
    for block in BLOCKS:
        value = first[block.name]
        assert value.shape == block.shape
        assert value.dtype == torch.float32
        assert not value.requires_grad
        assert not value[~block.mask].any()
        assert torch.equal(value, same[block.name])
        if member.domain == "real":
            assert not torch.equal(value, other[block.name])


@every_member
def test_rows_are_on_the_simplex_and_absent_choices_are_zero(member: Relaxation) -> None:
    for alpha in (member.init(BLOCKS, stream()), alpha_of(member)):
        for block in BLOCKS:
            probabilities = member.probabilities(BLOCKS, alpha)[block.name]
            torch.testing.assert_close(probabilities.sum(-1), torch.ones(len(block.rows), dtype=probabilities.dtype))
            assert (probabilities >= 0).all()
            assert not probabilities[~block.mask].any()


@every_member
def test_the_start_prefers_nothing(member: Relaxation) -> None:
    if isinstance(member, Softmax) and member.init_scale > 0.1:
        member = dataclasses.replace(member, init_scale=0.0)
    for name, value in member.probabilities(BLOCKS, member.init(BLOCKS, stream())).items():
        mask = next(block.mask for block in BLOCKS if block.name == name)
        torch.testing.assert_close(value, mask / mask.sum(-1, keepdim=True), rtol=0, atol=5e-3)


@every_member
def test_the_mixture_is_a_pure_function(member: Relaxation) -> None:
    alpha = alpha_of(member)
    before = {name: value.clone() for name, value in alpha.items()}
    state = torch.get_rng_state()
    noise = member.noise(BLOCKS, stream(4))
    first, second = (member.relax(BLOCKS, alpha, noise, 0.5) for _ in range(2))
    assert isinstance(first, Relaxed)
    for block in BLOCKS:
        mixture = first.mixture[block.name]
        assert mixture.shape == (block.cells, *block.shape)
        assert torch.equal(mixture, second.mixture[block.name])
        assert torch.equal(alpha[block.name], before[block.name])
        assert not mixture[:, ~block.mask].any()
        if first.active is not None:
            assert first.active[block.name].shape == mixture.shape
            assert first.active[block.name].dtype == torch.bool
    assert torch.equal(state, torch.get_rng_state())


@every_member
def test_the_same_noise_is_drawn_from_the_same_stream(member: Relaxation) -> None:
    alpha = alpha_of(member)
    first, second = (member.relax(BLOCKS, alpha, member.noise(BLOCKS, stream(7)), 0.1) for _ in range(2))
    assert all(torch.equal(first.mixture[name], second.mixture[name]) for name in first.mixture)


@every_member
@pytest.mark.parametrize("which", ["probabilities", "relax"])
def test_gradients_agree_with_differences(member: Relaxation, which: str) -> None:
    noise = member.noise(BLOCKS, stream(4))

    def function(normal: Tensor, reduce: Tensor) -> tuple[Tensor, ...]:
        alpha = {"normal": normal, "reduce": reduce}
        if which == "probabilities":
            return tuple(member.probabilities(BLOCKS, alpha).values())
        return tuple(member.relax(BLOCKS, alpha, noise, 0.5).mixture.values())

    inputs = tuple(value.requires_grad_() for value in alpha_of(member).values())
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@every_member
def test_absent_choices_receive_no_gradient(member: Relaxation) -> None:
    alpha = {name: value.requires_grad_() for name, value in alpha_of(member).items()}
    mixture = member.relax(BLOCKS, alpha, member.noise(BLOCKS, stream()), 0.0).mixture
    total = sum((value * torch.randn(value.shape, generator=stream(1))).sum() for value in mixture.values())
    for block, gradient in zip(BLOCKS, torch.autograd.grad(total, list(alpha.values())), strict=True):
        assert gradient.isfinite().all()
        assert not gradient[~block.mask].any()


@every_member
def test_relaxations_are_values(member: Relaxation) -> None:
    assert dataclasses.replace(member) == member  # type: ignore[type-var]
    assert hash(dataclasses.replace(member)) == hash(member)  # type: ignore[type-var]
    assert member.domain in ("real", "simplex")


def test_spread_copies_without_memory() -> None:
    rows = {"normal": torch.rand(3, 3, generator=stream()), "reduce": torch.rand(2, 2, generator=stream())}
    mixture = spread(BLOCKS, rows)
    assert {name: tuple(value.shape) for name, value in mixture.items()} == {"normal": (3, 3, 3), "reduce": (1, 2, 2)}
    assert all(value.data_ptr() == rows[name].data_ptr() for name, value in mixture.items())


def test_softmax_is_the_softmax_of_what_a_row_has() -> None:
    alpha = {"normal": torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 9.0], [5.0, 9.0, 9.0]]), "reduce": torch.zeros(2, 2)}
    rows = Softmax().probabilities(BLOCKS, alpha)["normal"]
    e = torch.e
    expected = [[1 / (1 + e + e * e), e / (1 + e + e * e), e * e / (1 + e + e * e)], [1 / (1 + e), e / (1 + e), 0]]
    torch.testing.assert_close(rows, torch.tensor([*expected, [1.0, 0.0, 0.0]]))


def test_softmax_is_stable_for_large_parameters() -> None:
    rows = Softmax().probabilities(BLOCKS, {"normal": torch.full((3, 3), 1e4), "reduce": torch.full((2, 2), -1e4)})
    assert all(value.isfinite().all() for value in rows.values())


@pytest.mark.parametrize("scale", [-1.0, float("nan")])
def test_softmax_refuses_a_negative_scale(scale: float) -> None:
    with pytest.raises(UserError, match=r"relaxation.init_scale is .*; it must be 0 or greater"):
        Softmax(init_scale=scale)
