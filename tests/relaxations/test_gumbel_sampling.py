"""Gumbel noise samples what the probabilities say, and its gradients are those of the definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.relaxations import Concrete, Domain, GumbelHard, Relaxed
from archgrad.relaxations.gumbel import Gumbel
from archgrad.spaces import DecisionBlock, Row

CHOICES = ("a", "b", "c", "d")
DRAWS = 20_000
every_domain = pytest.mark.parametrize("domain", ["real", "simplex"])
every_kind = pytest.mark.parametrize("kind", [GumbelHard, Concrete])


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def block_of(cells: int, *lengths: int) -> DecisionBlock:
    rows = tuple(Row(index + 1, 0, CHOICES[:length]) for index, length in enumerate(lengths))
    return DecisionBlock("cell", cells, rows)


def point(domain: Domain, probabilities: Tensor) -> dict[str, Tensor]:
    """Return the parameters that have these probabilities."""
    return {"cell": probabilities if domain == "simplex" else probabilities.clamp(min=1e-300).log() + 0.7}


def rows_of(seed: int) -> Tensor:
    weights = torch.rand(2, 4, generator=stream(seed), dtype=torch.float64) + 0.1
    weights[1, 2:] = 0
    return weights / weights.sum(-1, keepdim=True)


def sampled(member: Gumbel, probabilities: Tensor, progress: float, seed: int) -> Relaxed:
    block = block_of(DRAWS, 4, 2)
    return member.relax([block], point(member.domain, probabilities), member.noise([block], stream(seed)), progress)


@every_kind
@every_domain
@pytest.mark.parametrize("seed", range(3))
def test_the_largest_entry_is_drawn_with_its_probability(kind: type[Gumbel], domain: Domain, seed: int) -> None:
    """Each count is within four standard deviations, and so is their χ² statistic."""
    probabilities = rows_of(seed)
    mixture = sampled(kind(domain=domain, per_cell=True), probabilities, 0.5, seed).mixture["cell"]
    counts = torch.nn.functional.one_hot(mixture.argmax(-1), 4).sum(0).double()
    wanted = DRAWS * probabilities
    assert ((counts - wanted).abs() <= 4 * (wanted * (1 - probabilities)).sqrt()).all()
    statistic = torch.where(wanted > 0, (counts - wanted).square() / wanted, 0.0).sum(-1)
    freedom = torch.tensor([3.0, 1.0])
    assert (statistic <= freedom + 4 * (2 * freedom).sqrt()).all()


@every_domain
@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_hard_samples_are_exactly_one_hot_at_every_temperature(domain: Domain, progress: float) -> None:
    relaxed = sampled(GumbelHard(domain=domain, per_cell=True), rows_of(0).float(), progress, 0)
    mixture = relaxed.mixture["cell"]
    assert mixture.dtype == torch.float32
    assert ((mixture == 0) | (mixture == 1)).all()
    assert (mixture.sum(-1) == 1).all()
    assert relaxed.active is not None
    assert torch.equal(relaxed.active["cell"], mixture == 1)


def by_hand(
    domain: Domain, alpha: list[float], noise: list[float], tau: float
) -> tuple[list[float], list[list[float]]]:
    """Return s = softmax((log p + G)/τ) and ∂s[o]/∂α[k], in plain numbers."""
    probabilities = alpha
    if domain == "real":
        total = sum(math.exp(value) for value in alpha)
        probabilities = [math.exp(value) / total for value in alpha]
    powers = [(p * math.exp(g)) ** (1 / tau) for p, g in zip(probabilities, noise, strict=True)]
    soft = [power / sum(powers) for power in powers]
    size = range(len(alpha))
    by_log = [[soft[o] * ((o == k) - soft[k]) / tau for k in size] for o in size]
    if domain == "simplex":
        return soft, [[by_log[o][k] / alpha[k] for k in size] for o in size]
    # The shift of all log p by one number changes nothing, so that ∂/∂α is ∂/∂log p.
    return soft, by_log


@every_kind
@every_domain
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("progress", [0.0, 0.8])
def test_gradients_are_the_definition_by_hand(kind: type[Gumbel], domain: Domain, seed: int, progress: float) -> None:
    member, block = kind(domain=domain), block_of(1, 4)
    alpha = point(domain, rows_of(seed)[:1])["cell"].requires_grad_()
    noise = member.noise([block], stream(seed))
    mixture = member.relax([block], {"cell": alpha}, noise, progress).mixture["cell"]
    start, end = member.tau
    tau = start + (end - start) * progress
    soft, slopes = by_hand(domain, alpha[0].tolist(), noise["cell"][0, 0].double().tolist(), tau)
    hard = [float(value == max(soft)) for value in soft]
    wanted = hard if kind is GumbelHard else soft
    torch.testing.assert_close(mixture[0, 0], torch.tensor(wanted, dtype=torch.float64))
    for choice in range(4):
        (gradient,) = torch.autograd.grad(mixture[0, 0, choice], alpha, retain_graph=True)
        torch.testing.assert_close(gradient[0], torch.tensor(slopes[choice], dtype=torch.float64))


def test_the_published_temperatures_are_the_defaults() -> None:
    assert GumbelHard().tau == (10.0, 0.1)
    assert Concrete().tau == (1.0, 0.1)


@every_kind
@every_domain
@pytest.mark.parametrize("progress", [0.0, 1.0])
def test_choices_of_no_probability_are_never_drawn(kind: type[Gumbel], domain: Domain, progress: float) -> None:
    member, block = kind(domain=domain, per_cell=True), block_of(2_000, 4)
    gone = 0.0 if domain == "simplex" else -1e30
    alpha = torch.tensor([[0.5, gone, 0.5, gone]], requires_grad=True)
    mixture = member.relax([block], {"cell": alpha}, member.noise([block], stream(0)), progress).mixture["cell"]
    assert not mixture[..., [1, 3]].any()
    (gradient,) = torch.autograd.grad((mixture * torch.rand(mixture.shape, generator=stream(1))).sum(), alpha)
    assert gradient.isfinite().all()
    assert not gradient[:, [1, 3]].any()


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_gumbel_and_finite(seed: int) -> None:
    noise = GumbelHard(per_cell=True).noise([block_of(50_000, 4)], stream(seed))["cell"]
    assert noise.dtype == torch.float32
    assert noise.shape == (50_000, 1, 4)
    assert noise.isfinite().all()
    values = noise.double().flatten()
    spread = math.pi / math.sqrt(6)
    bound = 4 * spread / math.sqrt(len(values))
    assert values.mean().item() == pytest.approx(0.57721566, abs=bound)
    # The variance of a sample variance is about σ⁴·(κ − 1)/n, with a kurtosis κ of 5.4.
    assert values.var().item() == pytest.approx(spread**2, abs=4 * spread**2 * math.sqrt(4.4 / len(values)))


def test_noise_is_finite_at_the_ends_of_the_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([0.0, 1 - 2.0**-53], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda shape, **_: ends.repeat(2).reshape(shape))
    noise = GumbelHard().noise([block_of(1, 4)], stream(0))["cell"]
    assert noise.isfinite().all()
    assert noise.min() < -3 < 30 < noise.max()


@every_kind
def test_a_scale_that_the_simplex_does_not_use_is_refused(kind: type[Gumbel]) -> None:
    with pytest.raises(UserError, match=r"init_scale is 0\.1, .* 'simplex' .*; leave it out"):
        kind(domain="simplex", init_scale=0.1)
