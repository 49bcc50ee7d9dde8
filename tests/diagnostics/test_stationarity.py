"""Bregman stationarity against closed forms, an independent optimizer, and the theorem it was made for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from seeded import randn
from torch import Tensor

import archgrad as ag
from archgrad.arch_optimizers import GEOMETRIES, Entropy, Euclidean, ExponentiatedGradient
from archgrad.bilevel.problem import BilevelProblem
from archgrad.callbacks import Stationarity
from archgrad.diagnostics import bregman_stationarity
from archgrad.errors import UserError
from archgrad.hypergradients import evaluate_at
from archgrad.spaces import DecisionBlock, Row
from archgrad.system.warn_once import forget_warnings

Tensors = dict[str, Tensor]
every_seed = pytest.mark.parametrize("seed", range(3))


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    forget_warnings()


def simplex(*shape: int, seed: int) -> Tensor:
    return randn(*shape, seed=seed).softmax(-1)


def curvature(seed: int) -> Tensor:
    factor = randn(4, 4, seed=seed)
    return factor @ factor.T


@every_seed
@pytest.mark.parametrize("lam", [0.01, 0.5, 5.0])
def test_of_weights_alone_it_is_the_gradient_of_the_moreau_envelope(seed: int, lam: float) -> None:
    """For ½wᵀAw, u = (I + λA)⁻¹w, and Δ = ‖A·u‖², which tends to ‖∇f‖² with λ → 0."""
    matrix, w, theta = curvature(seed), randn(4, seed=100 + seed), simplex(1, 2, seed=0)
    found = bregman_stationarity(lambda v, a: v["w"] @ matrix @ v["w"] / 2, {"w": w}, {"a": theta}, Entropy(), lam)
    u = torch.linalg.solve(torch.eye(4, dtype=torch.float64) + lam * matrix, w)
    assert found == pytest.approx((matrix @ u).square().sum().item(), rel=1e-4)


@every_seed
@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_of_a_linear_loss_it_is_one_step_away(name: str, seed: int, lam: float) -> None:
    geometry, theta, costs = GEOMETRIES[name], simplex(3, 5, seed=seed), randn(3, 5, seed=100 + seed)
    u = geometry.step(theta, lam * costs, torch.ones(3, 5, dtype=torch.bool))
    expected = (geometry.divergence(u, theta) + geometry.divergence(theta, u)).sum().item() / lam**2
    found = bregman_stationarity(
        lambda w, a: (costs * a["a"]).sum(), {"w": randn(2, seed=0)}, {"a": theta}, geometry, lam
    )
    assert found == pytest.approx(expected, rel=1e-4)


@every_seed
@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("lam", [0.2, 2.0])
def test_of_a_coupled_loss_it_is_what_another_optimizer_finds(name: str, seed: int, lam: float) -> None:
    """Minimize λf + D by SLSQP in (w, θ) and put the result into Eq. 7."""
    geometry, mix, costs = GEOMETRIES[name], randn(3, 4, seed=seed), randn(4, seed=50 + seed)
    w, theta = randn(3, seed=100 + seed), simplex(1, 4, seed=200 + seed)

    def loss(v: Tensors, a: Tensors) -> Tensor:
        return (v["w"] - a["a"][0] @ mix.T).square().sum() / 2 + (costs * a["a"][0].square()).sum().sin()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.from_numpy(flat).requires_grad_()
        v, a = point[:3], point[3:][None]
        near = (v - w).square().sum() / 2 + geometry.divergence(a, theta).sum()
        total = lam * loss({"w": v}, {"a": a}) + near
        (slope,) = torch.autograd.grad(total, point)
        return total.item(), slope.numpy()

    best = minimize(
        objective,
        torch.cat([w, theta[0]]).numpy(),
        jac=True,
        method="SLSQP",
        bounds=[(None, None)] * 3 + [(1e-9, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda x: x[3:].sum() - 1, "jac": lambda x: np.array([0.0] * 3 + [1.0] * 4)},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    v, a = torch.from_numpy(best.x[:3]), torch.from_numpy(best.x[3:])[None]
    apart = (v - w).square().sum() + (geometry.divergence(a, theta) + geometry.divergence(theta, a)).sum()
    found = bregman_stationarity(loss, {"w": w}, {"a": theta}, geometry, lam)
    assert found == pytest.approx(apart.item() / lam**2, rel=1e-3)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_it_vanishes_where_nothing_improves(name: str, caplog: pytest.LogCaptureFixture) -> None:
    target = simplex(2, 3, seed=1)

    def loss(w: Tensors, a: Tensors) -> Tensor:
        return (w["w"] - 1).square().sum() + (a["a"] - target).square().sum() + a["a"].sum()

    place = {"w": torch.ones(2, dtype=torch.float64)}, {"a": target}
    assert bregman_stationarity(loss, *place, GEOMETRIES[name], 0.5) < 1e-24
    assert not caplog.messages


def test_a_corner_that_is_best_is_stationary_though_the_gradient_is_not_zero() -> None:
    costs = torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64)
    corner = {"a": torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)}
    weights = {"w": torch.zeros(1, dtype=torch.float64)}
    for geometry in GEOMETRIES.values():
        assert bregman_stationarity(lambda w, a: (costs * a["a"]).sum(), weights, corner, geometry, 0.5) == 0
    # The wrong corner is a fixed point of entropy, which cannot leave it, but not of Euclid.
    assert bregman_stationarity(lambda w, a: -(costs * a["a"]).sum(), weights, corner, Entropy(), 0.5) == 0
    assert bregman_stationarity(lambda w, a: -(costs * a["a"]).sum(), weights, corner, Euclidean(), 0.5) > 0.1


def test_the_support_says_which_choices_exist() -> None:
    theta, costs = torch.tensor([[0.6, 0.4, 0.0]], dtype=torch.float64), torch.tensor([[0.1, 0.2, -1.0]])
    weights, support = {"w": torch.zeros(1, dtype=torch.float64)}, torch.tensor([[True, True, False]])

    def measured(theta: Tensor, support: Tensor | None) -> float:
        given = None if support is None else {"a": support}
        width = theta.shape[-1]
        return bregman_stationarity(
            lambda w, a: (costs[:, :width] * a["a"]).sum(), weights, {"a": theta}, Euclidean(), 0.1, support=given
        )

    assert measured(theta, support) == pytest.approx(measured(theta[:, :2], None))
    assert measured(theta, None) > 2 * measured(theta, support)


class Sample(NamedTuple):
    """How stationary a random iterate of Algorithm 1 is on average, and what Theorem 1 promises."""

    measured: float
    promised: float


def algorithm_1(steps: int, seed: int) -> Sample:
    """Run block-stochastic mirror descent with noise on a smooth convex f, at the step size of Theorem 1.

    f(w, θ) = Σ log cosh(w − Bθ) + ⟨c, θ⟩ over two simplices, with 0 ≤ c. ∇w f is within ±1, and ∇θ f within the
    columns' sums of |B| plus c, so that the constants are known. Noise is uniform in ±½. φ is strongly convex in
    ‖·‖₁/√2, whose dual is √2·‖·‖∞. f is convex, so that γ is free; it is 1.
    """
    gamma, noise, size, rows, choices = 1.0, 0.5, 3, 2, 4
    mix, costs = 0.5 * randn(size, rows, choices, seed=1), 0.2 * randn(rows, choices, seed=2).abs()

    def loss(w: Tensors, a: Tensors) -> Tensor:
        apart = w["w"] - torch.einsum("src,rc->s", mix, a["a"])
        return (apart.abs() + torch.nn.functional.softplus(-2 * apart.abs()) - math.log(2)).sum() + (
            costs * a["a"]
        ).sum()

    def slopes(w: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        bent = (w - torch.einsum("src,rc->s", mix, theta)).tanh()
        return bent, costs - torch.einsum("src,s->rc", mix, bent)

    bound_w = size * (1 + noise**2 / 3)
    bound_theta = rows * ((mix.abs().sum(0) + costs).max().item() + noise) ** 2
    w, alpha = torch.full((size,), 2.0, dtype=torch.float64), {"a": torch.full((rows, choices), 0.25).double()}
    first = loss({"w": w}, alpha).item()
    rate = math.sqrt(4 * first / (gamma * (bound_w + bound_theta) * steps))
    member = ExponentiatedGradient(lr=rate, floor=0.0)
    state = member.init(alpha, steps)
    generator = torch.Generator().manual_seed(seed)
    chosen = set(range(steps // 96, steps, steps // 48))
    found = []
    for step in range(steps):
        if step in chosen:
            found.append(bregman_stationarity(loss, {"w": w}, alpha, Entropy(), 1 / (2 * gamma), tolerance=1e-2))
        of_w, of_theta = slopes(w, alpha["a"])
        block, *jitter = torch.rand(1 + size + rows * choices, generator=generator, dtype=torch.float64).split(
            [1, size, rows * choices]
        )
        if block < 0.5:
            w = w - rate * (of_w + noise * (2 * jitter[0] - 1))
        else:
            noisy = of_theta + noise * (2 * jitter[1] - 1).view(rows, choices)
            alpha, state = member.step(alpha, {"a": noisy}, state)
    return Sample(sum(found) / len(found), math.sqrt(16 * gamma * first * (bound_w + bound_theta) / steps))


def test_algorithm_1_becomes_stationary_at_the_rate_of_theorem_1() -> None:
    """E Δ ≤ √(16γF(G_w² + G_θ²)/T): below that bound at every T, and falling as T^(−1/2)."""
    lengths = (256, 1024, 4096)
    samples = [algorithm_1(steps, seed=steps) for steps in lengths]
    assert all(sample.measured <= sample.promised for sample in samples)
    logs = torch.tensor([sample.measured for sample in samples]).log()
    assert (logs.diff() < -0.5).all()
    slope = ((logs[-1] - logs[0]) / math.log(lengths[-1] / lengths[0])).item()
    assert slope == pytest.approx(-0.5, abs=0.1)


def coupled(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    return (w["w"] - a["cell"].sum(0) * batch).square().sum() + (a["cell"] * batch).sum()


def unread(w: Tensors, a: Tensors, batch: Tensor) -> Tensor:
    raise AssertionError("the inner loss was evaluated")


BLOCKS = (DecisionBlock("cell", 1, (Row(1, 0, ("a", "b", "c")), Row(2, 0, ("a", "b")))),)
THETA = torch.tensor([[0.2, 0.5, 0.3], [0.7, 0.3, 0.0]], dtype=torch.float64)


def probed(probe: Stationarity, theta: Tensor = THETA, dtype: torch.dtype = torch.float64) -> float:
    weights, alpha = {"w": randn(3, seed=0).to(dtype)}, {"cell": theta.to(dtype)}
    batch = torch.tensor([1.0, 2.0, -1.0], dtype=dtype)
    with evaluate_at(BilevelProblem(unread, coupled), weights, alpha, None, batch) as point:
        found = probe.measure_point(point)
        assert torch.equal(point.weights["w"], randn(3, seed=0).to(dtype))
        assert torch.equal(point.alpha["cell"], theta.to(dtype))
    assert list(found) == ["stationarity"]
    return found["stationarity"]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_probe_measures_the_outer_loss(name: str) -> None:
    batch = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    expected = bregman_stationarity(
        lambda w, a: coupled(w, a, batch),
        {"w": randn(3, seed=0)},
        {"cell": THETA},
        GEOMETRIES[name],
        0.05,
        support={"cell": BLOCKS[0].mask},
    )
    probe = Stationarity(lam=0.05, geometry=name, blocks=BLOCKS)
    assert probed(probe) == pytest.approx(expected, rel=0.05)
    assert probed(probe, dtype=torch.float32) == pytest.approx(expected, rel=0.05)
    if name == "entropy":
        assert probed(Stationarity(lam=0.05)) == probed(probe)


def test_stopping_early_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert math.isfinite(probed(Stationarity(lam=5.0, steps=3, tolerance=1e-9)))
    assert len(caplog.messages) == 1
    assert "not reached in 3 evaluations" in caplog.messages[0]
    assert "lower lam, which is 5" in caplog.messages[0]


def test_a_loss_that_is_not_finite_has_no_stationarity() -> None:
    place = {"w": torch.zeros(1)}, {"a": torch.tensor([[0.5, 0.5]])}
    assert math.isnan(bregman_stationarity(lambda w, a: (w["w"] / 0).sum(), *place, Entropy(), 0.1))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Stationarity(every=0), "every of Stationarity is 0; it must be at least 1"),
        (lambda: Stationarity(lam=0.0), "lam of Stationarity is 0.0; it must be a number greater than 0"),
        (lambda: Stationarity(steps=0), "steps of Stationarity is 0; it must be at least 1"),
        (lambda: Stationarity(tolerance=-1.0), "tolerance of Stationarity is -1.0; it must be a number greater than 0"),
        (
            lambda: Stationarity(geometry="euclid"),
            "unknown value of geometry of Stationarity: 'euclid'; did you mean 'euclidean'",
        ),
        (
            lambda: Stationarity(geometry="euclidean"),
            "blocks of Stationarity is empty.*give blocks=space.searched_blocks",
        ),
        (lambda: probed(Stationarity(), 2 * THETA), "block 'cell' are not on the simplex.*relaxation of the 'simplex'"),
    ],
)
def test_what_stationarity_cannot_do_is_explained(make, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make()


def test_a_search_can_be_watched_without_being_changed() -> None:
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=40)
    settings = {"epochs": 2, "batch_size": 20, "seed": 0, "held_out": 0}
    watched = ag.search(
        space, ag.recipes.gaea(), data, standard_callbacks=False, callbacks=[Stationarity(every=2, steps=8)], **settings
    )
    plain = ag.search(space, ag.recipes.gaea(), data, standard_callbacks=False, **settings)
    assert all(0 < record["stationarity"] < math.inf for record in watched.history)
    assert torch.equal(watched.alpha["cell"], plain.alpha["cell"])
    with pytest.raises(UserError, match="not on the simplex"):
        ag.search(
            space,
            ag.recipes.darts(),
            data,
            standard_callbacks=False,
            callbacks=[Stationarity(every=2, steps=8)],
            **settings,
        )
