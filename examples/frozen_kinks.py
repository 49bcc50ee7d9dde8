"""Why gradients are differenced with frozen kinks: `python examples/frozen_kinks.py`.

Second-order DARTS needs M·v, the change of ∂L1/∂α as the weights move along v, and takes it by central differences. A
ReLU has no curvature, so by the chain rule no kink adds anything to M·v. But a difference over a finite step also
counts the units that switch on or off on the way: a jump each, divided by the step. Over many batches these jumps
nearly average out; on one batch they are noise. With every kink held to the side it is on, the difference is one of a
smooth function, and any reasonable step will do.

`--channels 16 --cells 5 --data cifar10 --batches 8` looks at a supernet of the published size, and `--activations`
at other activations than ReLU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import mean, median, stdev
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

import archgrad as ag
from archgrad.autodiff.frozen_activations import ActivationPattern
from archgrad.autodiff.kinked_functions import KINKED_FUNCTIONS
from archgrad.autodiff.products import ExactProducts, FiniteProducts, ForwardProducts
from archgrad.autodiff.vectors import Vector, added, cosine, zeros_like
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.hypergradients import EvaluationPoint
from archgrad.loop.experiment import Experiment
from archgrad.loop.measuring import evaluate_at_state
from archgrad.operations import Identity, Operation, Site, Vocabulary
from archgrad.spaces import SearchSpace, StagedSpace

RADII = (0.1, 0.01, 0.001, 0.0001)
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "ReLU": nn.ReLU, "LeakyReLU": nn.LeakyReLU, "ReLU6": nn.ReLU6, "PReLU": nn.PReLU,
    "Hardtanh": nn.Hardtanh, "Hardsigmoid": nn.Hardsigmoid, "Hardswish": nn.Hardswish,
    "GELU": nn.GELU,
}  # fmt: skip


class Moving:
    """A pattern that is not held: every evaluation goes its own way."""

    recorded = True

    def evaluate(self, loss: Callable[[], Tensor]) -> Tensor:
        """Evaluate the loss as it is."""
        return loss()


class OnlyReLUs(ActivationPattern):
    """A pattern that holds ReLUs and nothing else."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let everything but ReLUs go its own way."""
        if func in KINKED_FUNCTIONS:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


class Row(NamedTuple):
    """Cosines to exact products over batches, and that of the means over all of them."""

    crossing: list[float]
    frozen: list[float]
    of_means: float


def points(space: SearchSpace, data: ag.data.ImageData, batches: int, steps: int = 60) -> Iterator[EvaluationPoint]:
    """Stand at a supernet that was trained for some steps, on one pair of batches after the other."""
    setup = Experiment.of(resolve(SearchConfig(space=space, method=ag.recipes.darts(), batch_size=64, seed=0)), data)
    torch.manual_seed(0)
    state = setup.initial_state()
    stepper = setup.stepper(state)
    for _ in range(steps):
        stepper.weight_step(state, setup.weight_loader.batch(state.index))
        state.step += 1
    for number in range(batches):
        with evaluate_at_state(setup, state, setup.step_batches(state.index + number)) as point:
            yield point


def mixed(point: EvaluationPoint, v: Vector, radius: float, crossing: bool) -> Vector:
    """Return M·v by central differences over this distance."""
    products = FiniteProducts(point.inner(), point.weights, point.alpha)
    products.radius = radius
    if crossing:
        products.pattern = Moving()
    return products.mixed(v)


def compare(space: SearchSpace, data: ag.data.ImageData, batches: int, radii: tuple[float, ...]) -> dict[float, Row]:
    """Compare differences across the kinks, and with them frozen, with exact products on each of some batches."""
    rows = {radius: Row([], [], 0.0) for radius in radii}
    sums: dict[float, Vector] = {}
    total: Vector = {}
    for point in points(space, data, batches):
        _, v = point.outer()
        exact = ExactProducts(point.inner(), point.weights, point.alpha).mixed(v)
        total = added(total or zeros_like(exact), exact)
        for radius, row in rows.items():
            found = mixed(point, v, radius, crossing=True)
            row.crossing.append(cosine(found, exact))
            row.frozen.append(cosine(mixed(point, v, radius, crossing=False), exact))
            sums[radius] = added(sums.get(radius) or zeros_like(exact), found)
    return {radius: row._replace(of_means=cosine(sums[radius], total)) for radius, row in rows.items()}


class Activated(Operation):
    """An activation, a 3×3 convolution and a batch norm."""

    def __init__(self, site: Site, activation: nn.Module) -> None:
        super().__init__()
        self.activation, self.norm = activation, site.norm()
        self.conv = nn.Conv2d(site.channels, site.channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply all three."""
        output: Tensor = self.norm(self.conv(self.activation(x)))
        return output


def space_with(activation: Callable[[], nn.Module]) -> StagedSpace:
    """Return a small space whose convolutions have this activation."""

    class Own(StagedSpace):
        name = "activated"
        operations: ClassVar[Vocabulary] = {
            "skip_connect": lambda site: Identity(),
            "first": lambda site: Activated(site, activation()),
            "second": lambda site: Activated(site, activation()),
        }

    return Own(channels=8, cells_per_stage=1)


def of_activation(activation: Callable[[], nn.Module], data: ag.data.ImageData) -> tuple[float, ...]:
    """Return cosines of one-sided differences to M·v and H·v: with only ReLUs frozen, and with every kink frozen."""
    (point,) = points(space_with(activation), data, 1)
    _, v = point.outer()
    arguments = point.inner(), point.weights, point.alpha
    exact, crossing, frozen = ExactProducts(*arguments), ForwardProducts(*arguments), ForwardProducts(*arguments)
    crossing.pattern = OnlyReLUs()
    pairs = [(products.both(v), exact.both(v)) for products in (crossing, frozen)]
    return tuple(cosine(found[place], truth[place]) for found, truth in pairs for place in (1, 0))


def print_activations(data: ag.data.ImageData) -> dict[str, tuple[float, ...]]:
    """Print the cosines for each activation."""
    print("               only ReLUs frozen           every kink frozen")
    print("activation             M·v           H·v          M·v          H·v")
    rows = {}
    for name, activation in ACTIVATIONS.items():
        rows[name] = of_activation(activation, data)
        print(
            f"{name:<13}  {rows[name][0]:11.4f}   {rows[name][1]:11.4f}   {rows[name][2]:10.6f}   {rows[name][3]:10.6f}"
        )
    return rows


def print_radii(
    space: SearchSpace, data: ag.data.ImageData, batches: int, radii: tuple[float, ...] = RADII
) -> dict[float, Row]:
    """Print cosines of central differences to the exact M·v, over batches."""
    rows = compare(space, data, batches, radii)
    print(f"{batches} batches; cosine to the exact M·v, mean ± standard deviation, median (least to greatest)")
    print("length of εv   across the kinks                      of the means   frozen, least")
    for radius, (crossing, frozen, of_means) in rows.items():
        spread = stdev(crossing) if len(crossing) > 1 else 0.0
        shown = (
            f"{mean(crossing):.2f} ± {spread:.2f}, {median(crossing):.2f} ({min(crossing):.2f} to {max(crossing):.2f})"
        )
        print(f"{radius:<12}   {shown:<35}   {of_means:12.2f}   {min(frozen):13.6f}")
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description="Compare differences of gradients with exact products.")
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--activations", action="store_true")
    chosen = parser.parse_args(arguments)
    data = ag.data.load(chosen.data, limit=chosen.limit)
    if chosen.activations:
        print_activations(data)
    else:
        print_radii(ag.spaces.NASBench201(channels=chosen.channels, cells_per_stage=chosen.cells), data, chosen.batches)


if __name__ == "__main__":
    main()
