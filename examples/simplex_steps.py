"""How the geometry counts: `python examples/simplex_steps.py`.

A linear loss over the simplex of k choices, one of them free and the others at a cost of 1, is descended by mirror
descent in two geometries, each at the step size of its theory. Exponentiated gradient needs O(log k) steps to come
within 0.2 of the optimum on average, projected gradient descent O(k) (GAEA, Section 3.1).
"""

from __future__ import annotations

import torch

from archgrad.arch_optimizers import MirrorDescent

ACCURACY = 0.2
SIZES = (4, 16, 64, 256)


def steps_needed(optimizer: MirrorDescent, choices: int) -> int:
    """Count the steps until the mean of all points so far is within the accuracy of the optimum, which is 0."""
    costs = torch.ones(1, choices, dtype=torch.float64)
    costs[0, 0] = 0
    theta = {"row": torch.full_like(costs, 1 / choices)}
    state, total, count = optimizer.init(theta, 10**6), torch.zeros_like(costs), 0
    while count == 0 or (costs * total).sum().item() / count > ACCURACY:
        total, count = total + theta["row"], count + 1
        theta, state = optimizer.step(theta, {"row": costs}, state)
    return count


def main() -> dict[str, list[int]]:
    """Print and return the number of steps for every size."""
    found = {
        "entropy": [steps_needed(MirrorDescent("entropy", ACCURACY, floor=0.0), size) for size in SIZES],
        "euclidean": [steps_needed(MirrorDescent("euclidean", ACCURACY / (size - 1)), size) for size in SIZES],
    }
    print(f"{'choices':<10}" + "".join(f"{size:>6}" for size in SIZES))
    for geometry, counts in found.items():
        print(f"{geometry:<10}" + "".join(f"{count:>6}" for count in counts))
    return found


if __name__ == "__main__":
    main()
