"""One suite that every architecture optimizer passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import copy
import dataclasses
import io

import pytest
import torch
from torch import Tensor

from archgrad import arch_optimizers
from archgrad.arch_optimizers import (
    XNAS,
    Adam,
    Annealed,
    ArchOptimizer,
    Clipped,
    ExponentiatedGradient,
    Fixed,
    MirrorDescent,
    TorchOptimizer,
)

MEMBERS: dict[str, ArchOptimizer] = {
    "adam": Adam(),
    "adam-fast": Adam(lr=0.1, weight_decay=0.0),
    "mirror-entropy": MirrorDescent(lr=0.05),
    "mirror-euclidean": MirrorDescent("euclidean"),
    "exponentiated-gradient": ExponentiatedGradient(),
    "exponentiated-gradient-bare": ExponentiatedGradient(lr=1.0, floor=0.0),
    "xnas": XNAS(),
    "xnas-keeping-all": XNAS(lr=0.1, bound=0.5, wipe_out=False),
    "fixed-real": Fixed(),
    "fixed-simplex": Fixed("simplex"),
    "torch": TorchOptimizer(),
    "torch-sgd": TorchOptimizer("SGD", lr=0.1, settings=("momentum=0.9", "nesterov=true")),
    "torch-plain-sgd": TorchOptimizer("SGD", lr=0.1),
    "torch-adagrad": TorchOptimizer("Adagrad", lr=0.1),
    "clipped": Clipped(ExponentiatedGradient(), 2.0),
    "annealed": Annealed(Adam(lr=0.1), last=0.1),
    "annealed-and-clipped": Annealed(Clipped(TorchOptimizer("RMSprop"))),
}
every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
every_simplex_member = pytest.mark.parametrize(
    "member",
    [member for member in MEMBERS.values() if member.domain == "simplex"],
    ids=[name for name, member in MEMBERS.items() if member.domain == "simplex"],
)
Alpha = dict[str, Tensor]
STEPS = 20
SHORT = torch.tensor([True, True, False, False])
"""A row of two choices in a block of four."""


def alpha_of(member: ArchOptimizer, dtype: torch.dtype = torch.float64) -> Alpha:
    generator = torch.Generator().manual_seed(0)
    values = {name: torch.randn(3, 4, generator=generator, dtype=dtype) for name in ("normal", "reduce")}
    return {name: value.softmax(-1) if member.domain == "simplex" else value for name, value in values.items()}


def gradient_of(step: int, dtype: torch.dtype = torch.float64) -> Alpha:
    generator = torch.Generator().manual_seed(100 + step)
    return {name: torch.randn(3, 4, generator=generator, dtype=dtype) for name in ("normal", "reduce")}


def flat(state: dict[str, Alpha]) -> list[tuple[str, str, Tensor]]:
    return [(quantity, name, value) for quantity, values in state.items() for name, value in values.items()]


@every_member
def test_a_step_has_no_side_effects(member: ArchOptimizer) -> None:
    alpha, gradient = alpha_of(member), gradient_of(0)
    state = member.init(alpha, STEPS)
    before = copy.deepcopy((alpha, gradient, state))
    first = member.step(alpha, gradient, state)
    second = member.step(alpha, gradient, state)
    for now, then in zip((alpha, gradient), before[:2], strict=True):
        assert all(torch.equal(now[name], then[name]) for name in then)
    assert all(torch.equal(a[2], b[2]) for a, b in zip(flat(state), flat(before[2]), strict=True))
    assert all(torch.equal(first[0][name], second[0][name]) for name in alpha)
    assert all(torch.equal(a[2], b[2]) for a, b in zip(flat(first[1]), flat(second[1]), strict=True))


@every_member
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_types_are_kept(member: ArchOptimizer, dtype: torch.dtype) -> None:
    alpha = alpha_of(member, dtype)
    moved, state = member.step(alpha, gradient_of(0, dtype), member.init(alpha, STEPS))
    assert list(moved) == list(alpha)
    for name, value in moved.items():
        assert (value.shape, value.dtype) == (alpha[name].shape, dtype)
        assert torch.equal(value, alpha[name]) != member.moves
    assert [entry[:2] for entry in flat(state)] == [entry[:2] for entry in flat(member.init(alpha, STEPS))]


@every_member
def test_the_state_is_all_there_is(member: ArchOptimizer) -> None:
    """Stopping after any step, saving, and going on with a new object takes the same way to the bit."""
    alpha = alpha_of(member)
    state = member.init(alpha, STEPS)
    for step in range(3):
        alpha, state = member.step(alpha, gradient_of(step), state)
    file = io.BytesIO()
    torch.save((alpha, state), file)
    file.seek(0)
    restored, restored_state = torch.load(file, weights_only=True)
    for step in range(3, 6):
        alpha, state = member.step(alpha, gradient_of(step), state)
        again = dataclasses.replace(member)  # type: ignore[type-var]
        restored, restored_state = again.step(restored, gradient_of(step), restored_state)
    assert all(torch.equal(alpha[name], restored[name]) for name in alpha)
    assert all(torch.equal(a[2], b[2]) for a, b in zip(flat(state), flat(restored_state), strict=True))


@every_member
def test_steps_go_downhill(member: ArchOptimizer) -> None:
    alpha = alpha_of(member)
    state = member.init(alpha, STEPS)
    target = torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=torch.float64)

    def loss(alpha: Alpha) -> float:
        return -sum((value * target).sum().item() for value in alpha.values())

    start = loss(alpha)
    for _ in range(5):
        alpha, state = member.step(alpha, {name: -target.expand(3, 4) for name in alpha}, state)
    assert loss(alpha) < start if member.moves else loss(alpha) == start


@every_member
def test_the_order_and_the_company_of_blocks_do_not_matter(member: ArchOptimizer) -> None:
    alpha, gradient = alpha_of(member), gradient_of(0)
    together, _ = member.step(alpha, gradient, member.init(alpha, STEPS))
    for name, value in alpha.items():
        alone = {name: value}
        moved, _ = member.step(alone, {name: gradient[name]}, member.init(alone, STEPS))
        assert torch.equal(moved[name], together[name])


@every_member
def test_simplex_optimizers_stay_on_the_simplex(member: ArchOptimizer) -> None:
    alpha = alpha_of(member)
    state = member.init(alpha, STEPS)
    for step in range(STEPS):
        alpha, state = member.step(alpha, gradient_of(step), state)
    assert all(value.isfinite().all() for value in alpha.values())
    if member.domain == "simplex":
        assert all((value >= 0).all() for value in alpha.values())
        assert all(torch.allclose(value.sum(-1), torch.ones(3, dtype=value.dtype)) for value in alpha.values())


@every_simplex_member
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, 1e20, 1e38])
def test_no_gradient_is_too_large_for_the_simplex(member: ArchOptimizer, dtype: torch.dtype, size: float) -> None:
    alpha = alpha_of(member, dtype)
    state = member.init(alpha, STEPS)
    for step in range(STEPS):
        gradient = {name: value.clamp(-3, 3) * size for name, value in gradient_of(step, dtype).items()}
        alpha, state = member.step(alpha, gradient, state)
        for value in alpha.values():
            assert value.isfinite().all()
            assert (value >= 0).all()
            torch.testing.assert_close(value.sum(-1), torch.ones(3, dtype=dtype))


@every_simplex_member
def test_choices_that_a_row_does_not_have_stay_exactly_zero(member: ArchOptimizer) -> None:
    full = torch.full((3, 4), 0.25, dtype=torch.float64)
    alpha = {"cell": torch.cat([full, (0.5 * SHORT).double()[None]])}
    state = member.init(alpha, STEPS)
    for step in range(STEPS):
        slope = torch.cat([gradient_of(step)["normal"], torch.tensor([[3.0, 2.0, 0.0, -9.0]], dtype=torch.float64)])
        alpha, state = member.step(alpha, {"cell": slope}, state)
        assert (alpha["cell"][-1][~SHORT] == 0).all()
        assert alpha["cell"][-1].sum().item() == pytest.approx(1.0)


@every_simplex_member
def test_a_constant_added_to_a_row_of_the_gradient_changes_nothing(member: ArchOptimizer) -> None:
    """Unless it is clipped: a bounded gradient is no longer one direction on the simplex."""
    alpha = alpha_of(member)
    gradient = {name: 0.1 * value.clamp(-1, 1) for name, value in gradient_of(0).items()}
    shifted = {name: value + torch.tensor([[0.3], [-0.2], [0.1]]) for name, value in gradient.items()}
    (moved, _), (same, _) = (member.step(alpha, slope, member.init(alpha, STEPS)) for slope in (gradient, shifted))
    for name, value in moved.items():
        torch.testing.assert_close(value, same[name])


@every_member
def test_optimizers_are_values(member: ArchOptimizer) -> None:
    twin = dataclasses.replace(member)  # type: ignore[type-var]
    assert twin == member
    assert hash(twin) == hash(member)
    assert eval(repr(member), vars(arch_optimizers)) == member  # noqa: S307
    assert [other for other in MEMBERS.values() if other == member] == [member]


@pytest.mark.parametrize("weight_decay", [0.0, 1e-3])
@pytest.mark.parametrize("betas", [(0.5, 0.999), (0.9, 0.99), (0.0, 0.5)])
def test_adam_is_the_adam_of_pytorch(weight_decay: float, betas: tuple[float, float]) -> None:
    member = Adam(lr=0.01, betas=betas, weight_decay=weight_decay)
    alpha = alpha_of(member)
    leaves = {name: value.clone().requires_grad_() for name, value in alpha.items()}
    expected = torch.optim.Adam(leaves.values(), lr=0.01, betas=betas, weight_decay=weight_decay)
    state = member.init(alpha, STEPS)
    for step in range(50):
        gradient = gradient_of(step)
        alpha, state = member.step(alpha, gradient, state)
        for name, leaf in leaves.items():
            leaf.grad = gradient[name].clone()
        expected.step()
        for name, leaf in leaves.items():
            torch.testing.assert_close(alpha[name], leaf.detach(), rtol=1e-12, atol=1e-14)
    assert int(state["steps"]["normal"]) == 50
