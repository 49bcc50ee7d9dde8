"""What iDARTS proves of its estimate, computed: `python examples/theory_idarts.py -o idarts.svg`.

The inner loss is ½wᵀHw − wᵀBα with the spectrum of H from 0.5 to 5, so that w* and the true gradient are known:

- Theorem 1: the error of the Neumann series of K terms at w*, and at w_T after T inner steps;
- Corollary 2: the series and truncated reverse mode, on an inner loss that is not quadratic;
- Lemma 1: two weights for which truncated reverse mode is no direction of descent;
- Theorem 2: the point that descent with a fixed K converges to, and the true gradient there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import ExactImplicit, Hypergradient, Neumann, TruncatedReverse
from archgrad.report.figure import save_figure

WEIGHTS, ALPHAS, GAMMA, MU, LARGEST = 10, 5, 0.2, 0.5, 5.0
TERMS = (0, 2, 10, 60)


class Instance(NamedTuple):
    """H, B, and the targets of w and α in the outer loss ½‖w − t‖² + ½‖α − a‖²."""

    hessian: Tensor
    coupling: Tensor
    target: Tensor
    prior: Tensor

    def inner(self, w: dict[str, Tensor], a: dict[str, Tensor], batch: object) -> Tensor:
        """L1 = ½wᵀHw − wᵀBα."""
        return w["w"] @ self.hessian @ w["w"] / 2 - w["w"] @ self.coupling @ a["a"]

    def curved(self, w: dict[str, Tensor], a: dict[str, Tensor], batch: object) -> Tensor:
        """L1 + Σ log cosh w: strongly convex, but not quadratic."""
        return self.inner(w, a, batch) + w["w"].cosh().log().sum()

    def outer(self, w: dict[str, Tensor], a: dict[str, Tensor], batch: object) -> Tensor:
        """L2."""
        return ((w["w"] - self.target).square().sum() + (a["a"] - self.prior).square().sum()) / 2

    def solution(self, alpha: Tensor) -> Tensor:
        """w*(α) = H⁻¹Bα."""
        return torch.linalg.solve(self.hessian, self.coupling @ alpha)


def instance(seed: int = 0) -> Instance:
    """Draw a problem."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    basis = torch.linalg.qr(draw(WEIGHTS, WEIGHTS))[0]
    spectrum = torch.linspace(MU, LARGEST, WEIGHTS, dtype=torch.float64)
    return Instance(basis @ torch.diag(spectrum) @ basis.T, draw(WEIGHTS, ALPHAS), 3 * draw(WEIGHTS), draw(ALPHAS))


def estimate(member: Hypergradient, inner: Any, outer: Any, weights: Tensor, alpha: Tensor) -> Tensor:
    """Return dL2/dα as a member of the library estimates it."""
    return member(BilevelProblem(inner, outer), {"w": weights}, {"a": alpha}, None, None)["a"]


def theorem_1(given: Instance, most: int) -> tuple[list[float], list[float]]:
    """Return the error of K = 0 … ``most`` terms at w*, and the bound ‖B‖·‖∂L2/∂w‖·(1/μ)(1 − γμ)^(K+1)."""
    alpha, losses = given.prior, (given.inner, given.outer)
    best = given.solution(alpha)
    exact = estimate(ExactImplicit(), *losses, best, alpha)
    constant = torch.linalg.matrix_norm(given.coupling, 2) * (best - given.target).norm()
    errors = [
        (estimate(Neumann(terms, GAMMA), *losses, best, alpha) - exact).norm().item() for terms in range(most + 1)
    ]
    return errors, [constant.item() / MU * (1 - GAMMA * MU) ** (terms + 1) for terms in range(most + 1)]


def inner_steps(given: Instance, lengths: tuple[int, ...]) -> dict[int, list[float]]:
    """Return the error of K terms at w_T, by K, where w_T is T steps of gradient descent away from w = 0."""
    alpha, losses = given.prior, (given.inner, given.outer)
    exact = estimate(ExactImplicit(), *losses, given.solution(alpha), alpha)
    found: dict[int, list[float]] = {terms: [] for terms in TERMS}
    for length in lengths:
        weights = torch.zeros(WEIGHTS, dtype=torch.float64)
        for _ in range(length):
            weights = weights - GAMMA * (given.hessian @ weights - given.coupling @ alpha)
        for terms, errors in found.items():
            errors.append((estimate(Neumann(terms, GAMMA), *losses, weights, alpha) - exact).norm().item())
    return found


def corollary_2(given: Instance, lengths: tuple[int, ...], terms: int = 2, rate: float = 0.1) -> dict[int, list[float]]:
    """Return the distance of the series of K terms at w_T from the last K, and the last K + 1, of T steps."""
    alpha, start = given.prior, torch.zeros(WEIGHTS, dtype=torch.float64)
    found: dict[int, list[float]] = {terms: [], terms + 1: []}
    for length in lengths:
        weights = start
        for _ in range(length):
            at = weights.clone().requires_grad_()
            (slope,) = torch.autograd.grad(given.curved({"w": at}, {"a": alpha}, None), at)
            weights = weights - rate * slope
        series = estimate(Neumann(terms, rate), given.curved, given.outer, weights, alpha)
        for keep, distances in found.items():
            member = TruncatedReverse(length, keep, lr=rate)
            distances.append((estimate(member, given.curved, given.outer, start, alpha) - series).norm().item())
    return found


def lemma_1(rate: float, most: int) -> list[float]:
    """Return hᵀ∇L2/‖∇L2‖² for the last K = 1 … ``most`` steps, with H = diag(1, 4), M = (1, 1), ∂L2/∂w = (1, −2)."""
    curvature = torch.tensor([1.0, 4.0], dtype=torch.float64)
    slope, alpha = torch.tensor([1.0, -2.0], dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    def inner(w: dict[str, Tensor], a: dict[str, Tensor], batch: object) -> Tensor:
        return (curvature * w["w"].square()).sum() / 2 + a["a"].sum() * w["w"].sum()

    def outer(w: dict[str, Tensor], a: dict[str, Tensor], batch: object) -> Tensor:
        return slope @ w["w"]

    best = -alpha / curvature
    exact = estimate(ExactImplicit(), inner, outer, best, alpha)
    kept = [estimate(TruncatedReverse(most, keep, lr=rate), inner, outer, best, alpha) for keep in range(1, most + 1)]
    return [((h @ exact) / (exact @ exact)).item() for h in kept]


class Descent(NamedTuple):
    """The lengths of the estimate and of the true gradient, after each outer step."""

    own: list[float]
    true: list[float]


def theorem_2(given: Instance, terms: int, steps: int, rate: float = 0.05) -> Descent:
    """Descend L2 with K terms, at w*(α) in every step."""
    alpha, descent, losses = given.prior, Descent([], []), (given.inner, given.outer)
    for step in range(steps + 1):
        weights = given.solution(alpha)
        own = estimate(Neumann(terms, GAMMA), *losses, weights, alpha)
        if step % max(1, steps // 100) == 0:
            descent.own.append(own.norm().item())
            descent.true.append(estimate(ExactImplicit(), *losses, weights, alpha).norm().item())
        alpha = alpha - rate * own
    return descent


def draw(figure: Any, found: dict[str, Any]) -> None:
    """Draw the four results."""
    (bound, inner), (same, descent) = figure.subplots(2, 2)
    errors, promised = found["theorem 1"]
    bound.semilogy(errors, label="error at w*")
    bound.semilogy(promised, "k--", label="bound of Theorem 1")
    bound.set(xlabel="terms K", ylabel="‖estimate − dL2/dα‖", title="Theorem 1: error of K terms at w*")
    for terms, values in found["inner steps"].items():
        inner.loglog(found["lengths"], values, marker=".", label=f"K = {terms}")
    inner.set(xlabel="inner steps T", ylabel="‖estimate − dL2/dα‖", title="… and at w_T: both T and K must grow")
    for keep, values in found["corollary 2"].items():
        same.loglog(found["lengths"], values, marker=".", label=f"last {keep} steps kept")
    same.set(xlabel="inner steps T", ylabel="‖truncated − series, K = 2‖", title="Corollary 2: K terms are K + 1 steps")
    shown = torch.linspace(0, found["steps"], len(found["theorem 2"][0].true))
    for color, (terms, lines) in enumerate(found["theorem 2"].items()):
        descent.semilogy(shown, lines.true, color=f"C{color}", label=f"K = {terms}, true gradient")
        descent.semilogy(shown, lines.own, color=f"C{color}", linestyle=":")
    descent.set(xlabel="outer steps", ylabel="length of the gradient", title="Theorem 2: own gradient (dotted) → 0")
    descent.set_ylim(1e-12, 100)
    for axes in (bound, inner, same, descent):
        axes.grid(alpha=0.3)
        axes.minorticks_off()
        axes.legend(fontsize="small")


def print_all(found: dict[str, Any]) -> None:
    """Print every number."""
    errors, promised = found["theorem 1"]
    print("Theorem 1, at w*: K, error, bound, error/bound")
    for terms in (*TERMS, len(errors) - 1):
        print(f"{terms:5}  {errors[terms]:.3g}  {promised[terms]:.3g}  {errors[terms] / promised[terms]:.3f}")
    print(f"last ratio of two errors {errors[-1] / errors[-2]:.4f}, 1 − γμ = {1 - GAMMA * MU}")
    print("at w_T, error of K terms for T =", *found["lengths"])
    for terms, values in found["inner steps"].items():
        print(f"{terms:5}  " + "  ".join(f"{value:.2g}" for value in values))
    print("Corollary 2, distance from the series of K = 2 terms for T =", *found["lengths"])
    for keep, values in found["corollary 2"].items():
        print(f"last {keep} steps  " + "  ".join(f"{value:.2g}" for value in values))
    print("Lemma 1, hᵀ∇L2/‖∇L2‖² for the last K = 1, 2, 4, 6, 7, 20 steps")
    for rate, ratios in found["lemma 1"].items():
        print(f"γ = {rate}  " + "  ".join(f"{ratios[keep - 1]:.3f}" for keep in (1, 2, 4, 6, 7, 20)))
    print(f"Theorem 2, after {found['steps']} outer steps: K, own gradient, true gradient")
    for terms, lines in found["theorem 2"].items():
        print(f"{terms:5}  {lines.own[-1]:.1e}  {lines.true[-1]:.4g}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print all numbers and draw them."""
    parser = argparse.ArgumentParser(description="Compute what iDARTS proves of its estimate.")
    parser.add_argument("-o", "--output", type=Path, default=Path("idarts.svg"))
    parser.add_argument("--small", action="store_true", help="fewer and shorter runs, for tests")
    chosen = parser.parse_args(arguments)
    given, steps = instance(), 60 if chosen.small else 600
    lengths = (3, 10, 100) if chosen.small else (3, 5, 10, 20, 30, 50, 100, 200, 300)
    found = {
        "lengths": lengths,
        "steps": steps,
        "theorem 1": theorem_1(given, 62 if chosen.small else 100),
        "inner steps": inner_steps(given, lengths),
        "corollary 2": corollary_2(given, lengths),
        "lemma 1": {rate: lemma_1(rate, 20) for rate in (0.1, 0.01)},
        "theorem 2": {terms: theorem_2(given, terms, steps) for terms in TERMS},
    }
    print_all(found)
    save_figure(lambda figure: draw(figure, found), chosen.output, (10, 7.5))
    return found


if __name__ == "__main__":
    main()
