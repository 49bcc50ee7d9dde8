"""What Λ-DARTS adds to the gradient of the weights, three ways: `python examples/aligned_cells.py`.

∇wΛ is the change of ∇w L1 as the mixture moves along Δ. The paper takes it by central differences over ε0 = 1e-4. A
ReLU has no curvature, so no kink has a part in the derivative at a point, but a difference also counts the units that
switch on or off between its two ends: a jump each, divided by ε. Shorter steps make the jumps rarer and larger. Over
all images they would add up to a curvature of their own; over one batch they are mostly noise, many times longer than
the gradient that is looked for and almost orthogonal to it. With every ReLU held to the side it is on, differences
agree with the exact gradient, and so does the cheapest of them, to one side only.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import torch

import archgrad as ag
from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import cosine, norm
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.loop.experiment import Experiment
from archgrad.loop.state import SearchState
from archgrad.regularizers import LayerAlignment, WeightStep

EPS = (1e-2, 1e-3, 1e-4)
BATCHES = 10


@dataclass(frozen=True)
class Kept(LayerAlignment):
    """Keeps what it would add, and adds nothing."""

    found: list[Weights] = field(default_factory=list)

    def weight_gradient(self, step: WeightStep) -> None:
        """Keep −λ·∇wΛ."""
        self.found.append(super().weight_gradient(step) or {})


def trained(steps: int = 60) -> tuple[Experiment, SearchState]:
    """Return a supernet that was trained for some steps."""
    space = ag.spaces.NASBench201(channels=8, cells_per_stage=1)
    setup = Experiment.of(
        resolve(SearchConfig(space=space, method=ag.recipes.darts(), batch_size=64, seed=0)), ag.data.digits()
    )
    torch.manual_seed(0)
    state = setup.initial_state()
    stepper = setup.stepper(state)
    for _ in range(steps):
        stepper.weight_step(state, setup.weight_loader.batch(state.index))
        state.step += 1
    return setup, state


def gradient(setup: Experiment, state: SearchState, part: Kept, batch: int) -> Weights:
    """Return what a part adds to a weight step on this batch."""
    setup, state = replace(setup, method=replace(setup.method, regularizers=(part,))), copy.deepcopy(state)
    setup.stepper(state).weight_step(state, setup.weight_loader.batch(state.index + batch))
    return part.found[0]


def compare(setup: Experiment, state: SearchState, **knobs: Any) -> list[tuple[float, float]]:
    """Return the length of an estimate, in that of the exact gradient, and the cosine between them, batch by batch."""
    found = []
    for batch in range(BATCHES):
        exact = gradient(setup, state, Kept(schedule="constant", difference="exact"), batch)
        other = gradient(setup, state, Kept(schedule="constant", **knobs), batch)
        found.append((norm(other) / norm(exact), cosine(other, exact)))
    return found


def main() -> dict[tuple[str, str, float], tuple[float, float]]:
    """Print how long each estimate is, and its cosine to the exact gradient; return the means over batches."""
    setup, state = trained()
    rows = {}
    print(f"{BATCHES} batches: mean (least to greatest)")
    print("kinks    difference   ε0      length / exact         cosine to exact")
    for kinks in ("crossed", "frozen"):
        for difference in ("central", "interleaved"):
            for eps in EPS:
                found = compare(setup, state, difference=difference, kinks=kinks, eps=eps)
                lengths, cosines = zip(*found, strict=True)
                rows[kinks, difference, eps] = fmean(lengths), fmean(cosines)
                length = f"{fmean(lengths):.2f} ({min(lengths):.2f} to {max(lengths):.2f})"
                angle = f"{fmean(cosines):.3f} ({min(cosines):.3f} to {max(cosines):.3f})"
                print(f"{kinks:<8} {difference:<12} {eps:<7} {length:<22} {angle}")
    return rows


if __name__ == "__main__":
    main()
