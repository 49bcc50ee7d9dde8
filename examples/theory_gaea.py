"""Theorem 1 of GAEA on a loss that is not convex: `python examples/theory_gaea.py -o gaea.svg`.

f(w, θ) = Σ_s ψ(w_s − (Bθ)_s) + ⟨c, θ⟩ with ψ(x) = 1 − exp(−x²/2), θ on a product of simplices and c ≥ 0. ψ″ is at least
−2·exp(−3/2) and |ψ′| at most exp(−1/2), so that every constant of the theorem is known. Block-stochastic mirror descent
(Algorithm 1) with noisy gradients is run at the theorem's step size, and the Bregman stationarity of random iterates is
compared with the bound √(16γF(G_w² + G_θ²)/T). Then exponentiated gradient is compared with projected gradient descent
by the loss, on the same f with more and more choices, of which the optimum uses few.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from archgrad.arch_optimizers import GEOMETRIES, MirrorDescent
from archgrad.diagnostics import bregman_stationarity
from archgrad.report.figure import save_figure

SIZE, ROWS, NOISE = 6, 3, 0.5
STEEPEST, BEND = math.exp(-1 / 2), 2 * math.exp(-3 / 2)
FACTORS = (1, 4, 16, 64, 256)
Geometry = str


@dataclass(frozen=True, eq=False)
class Problem:
    """B ``[size, rows, choices]`` with columns of length ½, and c, which is 0 for the first choice of each row."""

    mix: Tensor
    costs: Tensor

    @classmethod
    def of(cls, choices: int) -> Problem:
        """Draw a problem."""
        generator = torch.Generator().manual_seed(choices)
        mix = torch.randn(SIZE, ROWS, choices, generator=generator, dtype=torch.float64)
        costs = 0.5 + 0.5 * torch.rand(ROWS, choices, generator=generator, dtype=torch.float64)
        costs[:, 0] = 0
        return cls(mix / (2 * mix.norm(dim=0)), costs)

    def loss(self, w: dict[str, Tensor], a: dict[str, Tensor]) -> Tensor:
        """Return f."""
        apart = w["w"] - torch.einsum("src,rc->s", self.mix, a["a"])
        return (1 - (-apart.square() / 2).exp()).sum() + (self.costs * a["a"]).sum()

    def slopes(self, w: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return ∂f/∂w and ∂f/∂θ."""
        apart = w - torch.einsum("src,rc->s", self.mix, theta)
        bent = apart * (-apart.square() / 2).exp()
        return bent, self.costs - torch.einsum("src,s->rc", self.mix, bent)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return w, where ψ bends down in every coordinate, and the uniform θ."""
        return torch.full((SIZE,), 2.0, dtype=torch.float64), torch.full_like(self.costs, 1 / self.costs.shape[1])

    def gamma(self, geometry: Geometry) -> float:
        """Return γ with f + γ·(½‖w‖² + φ(θ)) convex: 2·exp(−3/2)·(1 + β), where ‖B·dθ‖² ≤ β·‖dθ‖² in φ's own norm."""
        if geometry == "entropy":
            return BEND * (1 + ROWS * self.mix.norm(dim=0).max().item() ** 2)
        return BEND * (1 + torch.linalg.matrix_norm(self.mix.flatten(1), 2).item() ** 2)

    def bound(self, geometry: Geometry) -> float:
        """Return G_w² + G_θ²; the dual norm is the largest entry of each row, or that of Euclid."""
        most = STEEPEST * self.mix.abs().sum(0) + self.costs
        of_theta = (most.amax(1) + NOISE).square() if geometry == "entropy" else most.square() + NOISE**2 / 3
        return SIZE * (STEEPEST**2 + NOISE**2 / 3) + of_theta.sum().item()

    def first(self) -> float:
        """Return F, the loss at the start."""
        w, theta = self.start()
        return self.loss({"w": w}, {"a": theta}).item()

    def rate(self, geometry: Geometry, steps: int) -> float:
        """Return the step size of Theorem 1."""
        return math.sqrt(4 * self.first() / (self.gamma(geometry) * self.bound(geometry) * steps))

    def promised(self, geometry: Geometry, steps: int) -> float:
        """Return the ε of Theorem 1 for so many steps."""
        return math.sqrt(16 * self.gamma(geometry) * self.first() * self.bound(geometry) / steps)


def algorithm_1(
    problem: Problem, geometry: Geometry, steps: int, seed: int, rate: float, samples: int
) -> list[tuple[Tensor, Tensor]]:
    """Run block-stochastic mirror descent with noise, uniform in ±½; return evenly spaced iterates."""
    member = MirrorDescent(geometry, lr=rate, floor=0.0)  # type: ignore[arg-type]
    (w, theta), generator = problem.start(), torch.Generator().manual_seed(seed)
    alpha, state, found = {"a": theta}, member.init({"a": theta}, steps), []
    for step in range(steps):
        if step % (steps // samples) == steps // samples // 2:
            found.append((w, alpha["a"]))
        of_w, of_theta = problem.slopes(w, alpha["a"])
        if torch.rand((), generator=generator) < 0.5:
            w = w - rate * (of_w + NOISE * (2 * torch.rand(w.shape, generator=generator, dtype=w.dtype) - 1))
        else:
            noise = NOISE * (2 * torch.rand(theta.shape, generator=generator, dtype=theta.dtype) - 1)
            alpha, state = member.step(alpha, {"a": of_theta + noise}, state)
    return found


def stationarity(problem: Problem, geometry: Geometry, steps: int, seeds: int, samples: int = 48) -> float:
    """Return the mean of Δ_λ over iterates and seeds, λ = 1/(2γ)."""
    lam, rate = 1 / (2 * problem.gamma(geometry)), problem.rate(geometry, steps)
    return fmean(
        bregman_stationarity(problem.loss, {"w": w}, {"a": theta}, GEOMETRIES[geometry], lam, tolerance=1e-2)
        for seed in range(seeds)
        for w, theta in algorithm_1(problem, geometry, steps, seed, rate, samples)
    )


def curvatures(problem: Problem, count: int = 200) -> tuple[float, float]:
    """Return the least eigenvalue of ∇²f over random points, plain and in units of ∇²(½‖w‖² + φ) with entropy."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.cat([torch.eye(SIZE, dtype=torch.float64), -problem.mix.flatten(1)], 1)
    plain, relative = [], []
    for _ in range(count):
        w = 2 * torch.randn(SIZE, generator=generator, dtype=torch.float64)
        theta = torch.randn(problem.costs.shape, generator=generator, dtype=torch.float64).mul(2).softmax(-1)
        apart = mixing @ torch.cat([w, theta.flatten()])
        hessian = mixing.T @ torch.diag((1 - apart.square()) * (-apart.square() / 2).exp()) @ mixing
        roots = torch.cat([torch.ones_like(w), theta.flatten().sqrt()])
        plain.append(torch.linalg.eigvalsh(hessian)[0].item())
        relative.append(torch.linalg.eigvalsh(roots[:, None] * hessian * roots)[0].item())
    return min(plain), min(relative)


def bilinear_gammas() -> tuple[float, float]:
    """Return the least γ for f = w·(θ1 − θ2), block by block and for both blocks together, at θ = (½, ½).

    In u = θ1 − θ2 the entropy has curvature 1 there, so that the second is the γ at which (γ, 1; 1, γ) is semidefinite.
    """
    hessian = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    return abs(hessian.diagonal().min().item()), -torch.linalg.eigvalsh(hessian)[0].item()


def excess(problem: Problem, geometry: Geometry, steps: int, seeds: int, factor: float, least: float) -> float:
    """Return the mean over iterates and seeds of f minus its least known value."""
    rate = factor * problem.rate(geometry, steps)
    runs = [algorithm_1(problem, geometry, steps, seed, rate, 64) for seed in range(seeds)]
    return fmean(problem.loss({"w": w}, {"a": theta}).item() for run in runs for w, theta in run) - least


def least_loss(problem: Problem) -> float:
    """Return f at its best corner with w = Bθ: ψ vanishes there, and no cost is paid, so that it is 0."""
    theta = torch.zeros_like(problem.costs)
    theta[:, 0] = 1
    return problem.loss({"w": torch.einsum("src,rc->s", problem.mix, theta)}, {"a": theta}).item()


def draw(figure: Any, found: dict[str, Any]) -> None:
    """Draw the rates, and the losses by the number of choices."""
    rate, sparse = figure.subplots(1, 2)
    for color, (geometry, rows) in enumerate(found["rates"].items()):
        lengths, measured, promised = zip(*rows, strict=True)
        rate.loglog(lengths, measured, "o-", color=f"C{color}", label=f"{geometry}, measured")
        rate.loglog(lengths, promised, "--", color=f"C{color}", label=f"{geometry}, bound of Theorem 1")
    rate.set(xlabel="steps T", ylabel="E Δ of a random iterate", title="Bregman stationarity, f not convex")
    for color, (geometry, rows) in enumerate(found["sparse"].items()):
        sparse.loglog(
            found["choices"], [row[0] for row in rows], "o-", color=f"C{color}", label=f"{geometry}, η of theory"
        )
        best = [min(row) for row in rows]
        sparse.loglog(found["choices"], best, "o:", color=f"C{color}", label=f"{geometry}, best η")
    sparse.set(
        xlabel="choices k of each row", ylabel="mean f − min f", title=f"one-hot optimum, {found['steps']} steps"
    )
    for axes in (rate, sparse):
        axes.grid(alpha=0.3)
        axes.minorticks_off()
        axes.legend(fontsize="small")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print all numbers and draw them."""
    parser = argparse.ArgumentParser(description="Compare Algorithm 1 of GAEA with its theorem.")
    parser.add_argument("-o", "--output", type=Path, default=Path("gaea.svg"))
    parser.add_argument("--small", action="store_true", help="fewer and shorter runs, for tests")
    chosen = parser.parse_args(arguments)
    lengths, seeds = ((64, 1024), 1) if chosen.small else ((256, 1024, 4096, 16384), 4)
    choices, steps = ((4, 32), 256) if chosen.small else ((4, 16, 64, 256), 2048)
    problem, found = Problem.of(8), {"choices": choices, "steps": steps, "rates": {}, "sparse": {}}
    found["curvatures"], found["bilinear"] = curvatures(problem), bilinear_gammas()
    print("least eigenvalue of ∇²f {:.3f}, relative to ½‖w‖² + φ {:.3f}".format(*found["curvatures"]))
    print("f = w·(θ1 − θ2): γ block by block {:g}, for both blocks together {:g}".format(*found["bilinear"]))
    for geometry in GEOMETRIES:
        constants = problem.gamma(geometry), problem.bound(geometry), problem.first()
        print("{}: γ = {:.3f}, G² = {:.2f}, F = {:.2f}".format(geometry, *constants))
        rows = [
            (length, stationarity(problem, geometry, length, seeds), problem.promised(geometry, length))
            for length in lengths
        ]
        for length, measured, promised in rows:
            print(f"  T = {length:6}  Δ {measured:.4f}  bound {promised:.3f}")
        slope = math.log(rows[-1][1] / rows[0][1]) / math.log(lengths[-1] / lengths[0])
        print(f"  Δ falls as T^{slope:.2f}")
        found["rates"][geometry] = rows
    print(f"mean f − min f over {steps} steps, by factor on the step size of the theorem:", *FACTORS)
    for geometry in GEOMETRIES:
        found["sparse"][geometry] = []
        for count in choices:
            other = Problem.of(count)
            row = [excess(other, geometry, steps, min(seeds, 2), factor, least_loss(other)) for factor in FACTORS]
            found["sparse"][geometry].append(row)
            print(f"  {geometry}, {count:4} choices  " + "  ".join(f"{value:.3f}" for value in row))
    save_figure(lambda figure: draw(figure, found), chosen.output, (10, 4))
    return found


if __name__ == "__main__":
    main()
