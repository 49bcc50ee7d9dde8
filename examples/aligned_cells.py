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

import torch

import archgrad as ag
from archgrad.bilevel import Weights
from archgrad.linalg import cosine, norm
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState
from archgrad.regularizers import LayerAlignment, WeightStep

EPS = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True)
class Kept(LayerAlignment):
    """Keeps what it would add, and adds nothing."""

    found: list[Weights] = field(default_factory=list)

    def weight_gradient(self, step: WeightStep) -> None:
        """Keep −λ·∇wΛ."""
        self.found.append(super().weight_gradient(step) or {})


def trained(steps: int = 60) -> tuple[Setup, SearchState]:
    """Return a supernet that was trained for some steps."""
    space = ag.spaces.nasbench201(channels=8, cells_per_stage=1)
    setup = Setup.of(space, ag.recipes.darts(), ag.data.digits(), batch_size=64, seed=0)
    torch.manual_seed(0)
    state = setup.initial_state()
    stepper = setup.stepper(state)
    for _ in range(steps):
        stepper.weight_step(state, setup.weight_loader.batch(state.index))
        state.step += 1
    return setup, state


def gradient(setup: Setup, state: SearchState, part: Kept) -> Weights:
    """Return what a part adds to the next weight step."""
    setup, state = replace(setup, method=replace(setup.method, regularizers=(part,))), copy.deepcopy(state)
    setup.stepper(state).weight_step(state, setup.weight_loader.batch(state.index))
    return part.found[0]


def main() -> dict[tuple[str, str, float], tuple[float, float]]:
    """Print how long each estimate is, and its cosine to the exact gradient."""
    setup, state = trained()
    exact = gradient(setup, state, Kept(schedule="constant", difference="exact"))
    rows = {}
    print(f"exact: length {norm(exact):.4f}")
    print("kinks     difference    ε0       length     cosine")
    for kinks in ("crossed", "frozen"):
        for difference in ("central", "interleaved"):
            for eps in EPS:
                part = Kept(schedule="constant", difference=difference, kinks=kinks, eps=eps)
                found = gradient(setup, state, part)
                rows[kinks, difference, eps] = norm(found) / norm(exact), cosine(found, exact)
                print(f"{kinks:<8}  {difference:<11}  {eps:<6}  {norm(found):9.4f}  {cosine(found, exact):9.5f}")
    return rows


if __name__ == "__main__":
    main()
