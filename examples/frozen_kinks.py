"""Why gradients are differenced with a frozen activation pattern: `python examples/frozen_kinks.py`.

Second-order DARTS needs M·v, the change of ∂L1/∂α as the weights move along v, and takes it by central differences. A
ReLU has no curvature, so by the chain rule no kink adds anything to M·v. But a difference over a finite step also
counts the units that switch on or off on the way: a jump each, divided by the step. Shorter steps do not help, they
only make the jumps rarer and larger. With every ReLU held to the side it is on, the difference is one of a smooth
function, and any reasonable step will do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

import archgrad as ag
from archgrad.hypergradients import ExactProducts, FiniteProducts, Point
from archgrad.linalg import Vector, cosine
from archgrad.loop.reopen import standing_at
from archgrad.loop.setup import Setup

RADII = (0.1, 0.01, 0.001, 0.0001)


class Moving:
    """A pattern that is not held: every evaluation goes its own way."""

    recorded = True

    def evaluate(self, loss: Callable[[], Tensor]) -> Tensor:
        """Evaluate the loss as it is."""
        return loss()


def after_training(steps: int = 60) -> AbstractContextManager[Point]:
    """Stand at a supernet that was trained for some steps."""
    space = ag.spaces.nasbench201(channels=8, cells_per_stage=1)
    setup = Setup.of(space, ag.recipes.darts(), ag.data.digits(), batch_size=64, seed=0)
    torch.manual_seed(0)
    state = setup.initial_state()
    stepper = setup.stepper(state)
    for _ in range(steps):
        stepper.weight_step(state, setup.weight_loader.batch(state.index))
        state.step += 1
    return standing_at(setup, state, 0)


def cosines(point: Point, v: Vector, radius: float) -> tuple[float, float]:
    """Compare central differences over this distance, across the kinks and with them frozen, with M·v."""
    exact = ExactProducts(point.inner(), point.weights, point.alpha).mixed(v)
    crossing, frozen = (FiniteProducts(point.inner(), point.weights, point.alpha) for _ in range(2))
    crossing.pattern = Moving()
    crossing.radius = frozen.radius = radius
    return cosine(crossing.mixed(v), exact), cosine(frozen.mixed(v), exact)


def main() -> list[tuple[float, float]]:
    """Print a table of cosines to the exact product."""
    with after_training() as point:
        _, v = point.outer()
        rows = [cosines(point, v, radius) for radius in RADII]
    print("length of εv   across the kinks   frozen")
    for radius, (crossing, frozen) in zip(RADII, rows, strict=True):
        print(f"{radius:<12}   {crossing:16.4f}   {frozen:.6f}")
    return rows


if __name__ == "__main__":
    main()
