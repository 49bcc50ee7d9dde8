"""Whether Eq. 7 of Amended-DARTS holds, ⟨g2′, g2⟩ ≥ 0: `python examples/theory_amended.py -o amended.svg`.

g2 = −M·H⁻¹·b is the exact second term of dL2/dα, g2′ = −η·M·H·b the amending term, with b = ∂L2/∂w. Beside the
amending term stands that of second-order DARTS, −γ·M·b. They are compared

- on a counterexample of two weights;
- on random problems, by the condition number of H;
- on a mixture of classifiers of the digits, strongly convex in the weights, at w*, where g2 is exact;
- in real searches on the digits, where H is indefinite and g2 has to be damped: (H + δI)⁻¹.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

import archgrad as ag
from archgrad.autodiff.vectors import added, cosine
from archgrad.bilevel.problem import BilevelProblem
from archgrad.callbacks import Callback, Measures
from archgrad.diagnostics import compare, reference_at
from archgrad.hypergradients import T1T2, Amended, ConjugateGradient, EvaluationPoint, ExactImplicit, FirstOrder
from archgrad.operations import AveragePool, Identity, ReLUConvBN, Vocabulary
from archgrad.report.figure import save_figure

CONDITIONS = (1.5, 2, 3, 5, 10, 20, 50, 100, 300, 1000, 10_000)
TERMS = {"amended": Amended(), "second-order DARTS": T1T2()}
DECAYS, RATE = (0.1, 0.01), 20.0
Tensors = dict[str, Tensor]


def counterexample() -> dict[str, float]:
    """Return the second terms for H = diag(1, 4), M = (1, 1), b = (2, −1)."""
    curvature, slope = torch.tensor([1.0, 4.0]), torch.tensor([2.0, -1.0])
    problem = BilevelProblem(
        inner=lambda w, a, _: (curvature * w["w"].square()).sum() / 2 + a["a"] * w["w"].sum(),
        outer=lambda w, a, _: slope @ w["w"],
    )
    point = {"w": -1 / curvature}, {"a": torch.tensor(1.0)}, None, None
    members = {"exact": ExactImplicit(), **TERMS}
    return {name: (member(problem, *point)["a"]).item() for name, member in members.items()}


def shares(condition: float, weights: int, alphas: int, count: int) -> tuple[float, float]:
    """Return the shares of random problems in which either term points against g2.

    H has a random basis and a spectrum from 1 to ``condition``, even on a logarithmic scale; M and b are normal.
    """
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(count, weights, weights, generator=generator))[0]
    mixed, slope = (torch.randn(count, *s, generator=generator) for s in ((alphas, weights), (weights, 1)))
    places = torch.rand(count, weights, 1, generator=generator)
    places[:, 0], places[:, 1] = 0, 1
    spectrum, within = condition**places, basis.mT @ slope
    exact, amended, plain = (mixed @ basis @ (spectrum**power * within) for power in (-1, 1, 0))
    signs = [(term * exact).sum((1, 2)) < 0 for term in (amended, plain)]
    return signs[0].double().mean().item(), signs[1].double().mean().item()


class Digits(NamedTuple):
    """The digits seen through three operations, ``[images, operations, rows, pixels]``, and their classes."""

    features: Tensor
    labels: Tensor


def operated(count: int) -> tuple[Digits, Digits]:
    """Return training and validation images after a skip, a random layer of ReLUs and average pooling."""
    data, generator = ag.data.digits(), torch.Generator().manual_seed(0)
    order = torch.randperm(len(data.images), generator=generator)[: 2 * count]
    pixels = data.images[order].double().div(16 * 16)
    flat = pixels.flatten(1)
    layer = torch.relu(flat @ torch.randn(64, 64, generator=generator) / 8)
    pooled = torch.nn.functional.avg_pool2d(pixels, 3, 1, 1).flatten(1)
    features = torch.stack([flat, layer, pooled], 1)
    features = ((features - features.mean(0)) / features.std((0, 2), keepdim=True)).unflatten(2, (8, 8))
    halves = zip(features.split(count), data.labels[order].split(count), strict=True)
    first, second = (Digits(*half) for half in halves)
    return first, second


def mixture_loss(w: Tensors, a: Tensors, batch: Digits) -> Tensor:
    """Cross-entropy of Σ softmax(α_r)_o·x_ro·W_ro: each row r of eight pixels mixes its operations o."""
    logits = torch.einsum("norf,ro,orfc->nc", batch.features, a["a"].softmax(-1), w["w"])
    return torch.nn.functional.cross_entropy(logits, batch.labels)


def solved(inner: Any, alpha: Tensors, batch: Digits, start: Tensor) -> Tensor:
    """Return w*(α) by L-BFGS, until no entry of ∂L1/∂w exceeds 1e-7."""
    w = start.clone().requires_grad_()
    solver = torch.optim.LBFGS(
        [w], max_iter=2000, tolerance_grad=1e-10, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss: Tensor = inner({"w": w}, alpha, batch)
        loss.backward()
        return loss

    solver.step(closure)
    if w.grad is None or w.grad.abs().max() > 1e-7:
        raise RuntimeError("L-BFGS did not reach w*.")
    return w.detach()


def convex_search(decay: float, steps: int, count: int) -> list[tuple[float, float]]:
    """Search with the exact gradient; return the cosines of either term with g2 before every step."""

    def inner(w: Tensors, a: Tensors, batch: Digits) -> Tensor:
        return mixture_loss(w, a, batch) + decay / 2 * w["w"].square().sum()

    train, valid = operated(count)
    alpha, weights, problem = {"a": torch.zeros(8, 3)}, torch.zeros(3, 8, 8, 10), BilevelProblem(inner, mixture_loss)
    found = []
    for _ in range(steps):
        weights = solved(inner, alpha, train, weights)
        point = {"w": weights}, alpha, train, valid
        first = FirstOrder()(problem, *point)
        exact = ConjugateGradient(steps=1000)(problem, *point)
        second = [added(member(problem, *point), first, -1.0) for member in TERMS.values()]
        truth = added(exact, first, -1.0)
        found.append((cosine(second[0], truth), cosine(second[1], truth)))
        alpha = added(alpha, exact, -RATE)
    return found


@dataclass(frozen=True, kw_only=True)
class Tiny(ag.spaces.StagedSpace):
    """Three edges with three operations."""

    name: ClassVar[str] = "tiny"
    nodes: ClassVar[int] = 3
    operations: ClassVar[Vocabulary] = {
        "skip_connect": lambda site: Identity(),
        "conv_3x3": lambda site: ReLUConvBN(site.channels, site, 3),
        "avg_pool_3x3": AveragePool,
    }


class Measured(NamedTuple):
    """The spectrum of H at one point, and the cosines of either term with g2 at the least damping and at ten times."""

    smallest: float
    largest: float
    least: tuple[float, ...]
    more: tuple[float, ...]


@dataclass(frozen=True)
class SecondTerms(Callback):
    """Compare the terms with g2 by conjugate gradient on H + δI, where δ is 1.1·|λmin| plus the weight decay."""

    kind: ClassVar[str] = "second-terms"
    every: int = 14
    steps: int = 100
    found: list[Measured] = field(default_factory=list)

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Keep the cosines."""
        reference = reference_at(point, self.steps)
        least = reference.estimator
        cosines = [
            tuple(one.second_cosine for one in compare(point, TERMS, estimator).values())
            for estimator in (least, ConjugateGradient(self.steps, 10 * least.damping))
        ]
        self.found.append(Measured(reference.lambda_min, reference.lambda_max, *cosines))
        return {}


def searched(epochs: int, seed: int, limit: int | None, steps: int) -> list[Measured]:
    """Search with Amended-DARTS and measure once in each epoch."""
    data, callback = ag.data.digits(limit=limit), SecondTerms(every=14 if limit is None else 1, steps=steps)
    space = Tiny(channels=2, cells_per_stage=1)
    settings = {"epochs": epochs, "batch_size": 64 if limit is None else 20, "seed": seed, "held_out": 0}
    ag.search(space, ag.recipes.amended(), data, callbacks=[callback], standard_callbacks=False, **settings)
    return callback.found


def draw(figure: Any, found: dict[str, Any]) -> None:
    """Draw the shares over condition numbers, and the cosines of both searches."""
    random, convex, real = figure.subplots(1, 3)
    for (weights, alphas), rows in found["random"].items():
        for place, (name, style) in enumerate(zip(TERMS, ("-", ":"), strict=True)):
            color = "C0" if alphas == weights else "C1"
            label = f"{name}, {weights} w, {alphas} α"
            random.semilogx(CONDITIONS, [row[place] for row in rows], style, color=color, label=label)
    random.set(xlabel="condition number of H", ylabel="share of problems", title="⟨g2′, g2⟩ < 0, random problems")
    for (decay, rows), style in zip(found["convex"].items(), ("-", ":"), strict=False):
        for place, name in enumerate(TERMS):
            convex.plot([row[place] for row in rows], style, color=f"C{2 * place}", label=f"{name}, decay {decay}")
    convex.set(xlabel="step of α", ylabel="cosine to g2", title="convex mixture on digits, at w*")
    for place, name in enumerate(TERMS):
        for style, damping in (("o", "least"), ("x", "more")):
            points = [
                (1 + epoch, getattr(one, damping)[place]) for run in found["real"] for epoch, one in enumerate(run)
            ]
            label = f"{name}, {'least δ' if damping == 'least' else '10 δ'}"
            real.plot(*zip(*points, strict=True), style, color=f"C{2 * place}", markersize=4, alpha=0.8, label=label)
    real.set(xlabel="measurement (one per epoch)", ylabel="cosine to damped g2", title="real searches on digits")
    for axes in (convex, real):
        axes.set_ylim(-1.05, 1.05)
        axes.axhline(0, color="k", linewidth=0.8)
    for axes in (random, convex, real):
        axes.grid(alpha=0.3)
        axes.minorticks_off()
        axes.legend(fontsize="x-small")


def print_all(found: dict[str, Any]) -> None:
    """Print every number."""
    print("counterexample:", ", ".join(f"{name} {value:g}" for name, value in found["counterexample"].items()))
    for (weights, alphas), rows in found["random"].items():
        print(f"{weights} weights, {alphas} α: share of ⟨g2′, g2⟩ < 0, and of second-order DARTS, by condition number")
        for condition, (amended, plain) in zip(CONDITIONS, rows, strict=True):
            print(f"{condition:8g}  {amended:.3f}  {plain:.3f}")
    for decay, rows in found["convex"].items():
        for place, name in enumerate(TERMS):
            values = [row[place] for row in rows]
            ends = f"{values[0]:.3f} at first, {values[-1]:.3f} at last, least {min(values):.3f}"
            print(f"convex mixture, weight decay {decay}, {name}: cosine {ends}")
    points = [one for run in found["real"] for one in run]
    for place, name in enumerate(TERMS):
        for damping in ("least", "more"):
            values = sorted(getattr(one, damping)[place] for one in points)
            negative = sum(value < 0 for value in values)
            spread = f"{values[0]:.2f} … {values[len(values) // 2]:.2f} … {values[-1]:.2f}"
            print(f"real, {name}, {damping} damping: {negative} of {len(values)} negative; cosines {spread}")
    indefinite = sum(one.smallest < 0 for one in points)
    ends = min(one.smallest for one in points), max(one.largest for one in points)
    print(f"real, H indefinite at {indefinite} of {len(points)} points, eigenvalues {ends[0]:.1f} to {ends[1]:.1f}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print all numbers and draw them."""
    parser = argparse.ArgumentParser(description="Look for the sign of ⟨g2′, g2⟩ in Amended-DARTS.")
    parser.add_argument("-o", "--output", type=Path, default=Path("amended.svg"))
    parser.add_argument("--small", action="store_true", help="fewer and smaller problems, for tests")
    small = parser.parse_args(arguments).small
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        count, sizes = (200, ((10, 10),)) if small else (2000, ((10, 10), (100, 4)))
        found: dict[str, Any] = {
            "counterexample": counterexample(),
            "random": {size: [shares(condition, *size, count) for condition in CONDITIONS] for size in sizes},
            "convex": {decay: convex_search(decay, *((2, 60) if small else (40, 600))) for decay in DECAYS},
            "real": [searched(1, 0, 40, 5)] if small else [searched(12, seed, None, 60) for seed in range(2)],
        }
    finally:
        torch.set_default_dtype(before)
    print_all(found)
    save_figure(lambda figure: draw(figure, found), parser.parse_args(arguments).output, (13, 4))
    return found


if __name__ == "__main__":
    main()
