"""Find wrong labels by hypergradient (data hyper-cleaning): `python examples/clean_data.py`.

Two fifths of the training labels of the digits are replaced by wrong ones, and each sample gets a weight σ(α_i).
Inner problem: weighted cross-entropy of a softmax regression, plus a little L2, solved to optimality. Outer problem:
the loss of its solution on 200 samples whose labels are known to be right. A sample whose weight hurts there loses it.
Descent with momentum keeps how much each sample hurts; Adam would divide it away. Which labels were replaced is unknown
to all but the last lines, which measure how well they were found.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor

import archgrad as ag

TRAIN, VALID, CORRUPTED, CLASSES = 800, 200, 0.4, 10
L2, STEPS, LEARNING_RATE, MOMENTUM = 2e-3, 20, 100.0, 0.9


class Part(NamedTuple):
    """Some of the samples: pixels with a column of ones, and labels."""

    x: Tensor
    y: Tensor


class Outcome(NamedTuple):
    """How well wrong labels were found, and the test accuracies of what was trained on all, cleaned, right, trusted."""

    clean_weight: float
    corrupted_weight: float
    auc: float
    before: float
    after: float
    oracle: float
    trusted_only: float


def split(seed: int) -> tuple[Part, Part, Part]:
    """Shuffle the digits into a training, a small validation and a test part."""
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    x, y = F.pad(torch.tensor(pixels)[order] / 16, (0, 1), value=1.0), torch.tensor(labels, dtype=torch.long)[order]
    train, valid, test = slice(TRAIN), slice(TRAIN, TRAIN + VALID), slice(TRAIN + VALID, None)
    return Part(x[train], y[train]), Part(x[valid], y[valid]), Part(x[test], y[test])


def corrupt(part: Part, seed: int) -> tuple[Part, Tensor]:
    """Replace some labels by wrong ones; return which."""
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(len(part.y), generator=generator) < CORRUPTED
    shift = torch.randint(1, CLASSES, part.y.shape, generator=generator)
    return Part(part.x, torch.where(wrong, (part.y + shift) % CLASSES, part.y)), wrong


def inner(weights: dict[str, Tensor], alpha: dict[str, Tensor], train: Part) -> Tensor:
    """Cross-entropy with a weight σ(α_i) for each sample, and a little L2."""
    losses = F.cross_entropy(train.x @ weights["w"], train.y, reduction="none")
    return (alpha["samples"].sigmoid() * losses).mean() + L2 * weights["w"].square().sum()


def outer(weights: dict[str, Tensor], alpha: dict[str, Tensor], valid: Part) -> Tensor:
    """Cross-entropy on samples that can be trusted."""
    return F.cross_entropy(valid.x @ weights["w"], valid.y)


def solve(samples: Tensor, train: Part, start: Tensor | None = None) -> Tensor:
    """Minimize the inner loss by L-BFGS, from the last solution if there is one."""
    w = torch.zeros(train.x.shape[1], CLASSES, dtype=torch.float64) if start is None else start.clone()
    w.requires_grad_()
    optimizer = torch.optim.LBFGS([w], max_iter=200, tolerance_grad=1e-5, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        (loss := inner({"w": w}, {"samples": samples}, train)).backward()
        return loss

    optimizer.step(closure)
    return w.detach()


def clean(train: Part, valid: Part) -> Tensor:
    """Return α, one number per training sample: the lower, the less its label is to be trusted."""
    problem = ag.BilevelProblem(inner, outer)
    hypergradient = ag.hypergradients.ConjugateGradient(steps=20)
    samples, w = torch.zeros(len(train.y), dtype=torch.float64), None
    optimizer = torch.optim.SGD([samples], lr=LEARNING_RATE, momentum=MOMENTUM)
    for _ in range(STEPS):
        w = solve(samples, train, w)
        samples.grad = hypergradient(problem, {"w": w}, {"samples": samples}, train, valid)["samples"]
        optimizer.step()
    return samples


def accuracy(samples: Tensor, train: Part, test: Part) -> float:
    """Train with these weights of the samples and test."""
    return ((test.x @ solve(samples, train)).argmax(1) == test.y).double().mean().item()


def main(seed: int = 0) -> Outcome:
    """Corrupt, clean, and measure."""
    original, valid, test = split(seed)
    train, wrong = corrupt(original, seed)
    samples = clean(train, valid)
    equal, right = torch.zeros_like(samples), Part(train.x[~wrong], train.y[~wrong])
    outcome = Outcome(
        clean_weight=samples[~wrong].sigmoid().mean().item(),
        corrupted_weight=samples[wrong].sigmoid().mean().item(),
        auc=float(roc_auc_score(wrong, -samples)),
        before=accuracy(equal, train, test),
        after=accuracy(samples, train, test),
        oracle=accuracy(equal[~wrong], right, test),
        trusted_only=accuracy(equal[:VALID], valid, test),
    )
    print(f"mean weight: {outcome.clean_weight:.3f} of right labels, {outcome.corrupted_weight:.3f} of wrong ones")
    print(f"AUC of finding the {wrong.sum()} wrong among {len(wrong)} labels: {outcome.auc:.4f}")
    print(f"test accuracy: {outcome.before:.1%} before cleaning, {outcome.after:.1%} after it")
    print(f"{outcome.oracle:.1%} by the right labels only, {outcome.trusted_only:.1%} by the {VALID} trusted ones only")
    return outcome


if __name__ == "__main__":
    main()
