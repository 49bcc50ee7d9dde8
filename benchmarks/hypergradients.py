"""What an architecture gradient costs, in first-order architecture steps, and how near it is to exact products.

``cosine`` is that to the same estimator with exact products; ``second_cosine`` is the same of the second terms alone:
what an estimate adds to ∂L2/∂α. ``second_size`` is the length of that, in lengths of ∂L2/∂α. The last table has the
memory of estimators that look back T steps or take T products, in megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archgrad.autodiff.gradients import gradients, leaves
from archgrad.autodiff.products import ProductKind
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, cosine, norm
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.data import Batch
from archgrad.hypergradients import (
    T1T2,
    Amended,
    Batches,
    ConjugateGradient,
    FirstOrder,
    Hypergradient,
    Neumann,
    TruncatedReverse,
    Unrolled,
    evaluate_at,
)
from archgrad.relaxations import Softmax
from archgrad.system import random_streams
from benchmarks.common import Case, Options, Report, growth, in_new_process, options, times

CASES = [Case("nasbench201", 8, 1, 16, 64), Case("darts", 8, 5, 32, 32)]
MEMORY_CASES = {"nasbench201": Case("nasbench201", 8, 1, 16, 32), "darts": Case("darts", 8, 3, 16, 8)}
KINDS: tuple[ProductKind, ...] = get_args(ProductKind)
ESTIMATORS: dict[str, Callable[..., Hypergradient]] = {
    "Unrolled": Unrolled,
    "T1T2": T1T2,
    **{f"Neumann K={terms}": partial(Neumann, terms=terms) for terms in range(4)},
    "ConjugateGradient T=2": partial(ConjugateGradient, steps=2, damping=10.0),
    "Amended": Amended,
    **{
        f"TruncatedReverse T={steps} keep={keep}": partial(TruncatedReverse, steps=steps, keep=keep)
        for steps, keep in ((1, 1), (4, 4), (4, 2))
    },
}
GROWING: dict[str, Callable[[int], Hypergradient]] = {
    "TruncatedReverse keep=T exact": lambda length: TruncatedReverse(steps=length, keep=length),
    "TruncatedReverse keep=T finite": lambda length: TruncatedReverse(length, length, products="finite"),
    "TruncatedReverse keep=1": lambda length: TruncatedReverse(steps=length, keep=1),
    "Neumann exact": lambda length: Neumann(terms=length),
    "Neumann forward": lambda length: Neumann(terms=length, products="forward"),
    "ConjugateGradient exact": lambda length: ConjugateGradient(steps=length, damping=10.0),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A supernet in the middle of its training, and the batches that follow."""

    losses: BilevelProblem
    weights: Weights
    alpha: Alpha
    descent: Descent
    inner: Batches
    outer: Batch

    def estimate(self, hypergradient: Hypergradient) -> Alpha:
        """Return dL2/dα as the estimator sees it."""
        return hypergradient(self.losses, self.weights, self.alpha, self.inner, self.outer, descent=self.descent)

    def first_term(self, hypergradient: Hypergradient) -> Alpha:
        """Return ∂L2/∂α where the estimator takes it."""
        with evaluate_at(self.losses, self.weights, self.alpha, self.inner, self.outer, self.descent) as point:
            return hypergradient.direct(point)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all estimators with all kinds of products, then memory."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for case in chosen.cases:
        problem = problem_of(case, inner_batches=4)
        for name, build in ESTIMATORS.items():
            compare(report, chosen, case, problem, name, [build(products=kind) for kind in KINDS])
    for case in chosen.cases if chosen.memory else ():
        for name in GROWING:
            megabytes = {
                f"T={steps}": in_new_process(peak, MEMORY_CASES[case.space], name, steps) for steps in (1, 4, 16)
            }
            report.add(space=case.space, estimator=name, **megabytes)
    report.store(chosen.json)


def compare(
    report: Report, chosen: Options, case: Case, problem: Problem, name: str, members: list[Hypergradient]
) -> None:
    """Report one estimator with each kind of products, in turns with the first-order step."""
    found = times([partial(problem.estimate, member) for member in (FirstOrder(), *members)], chosen.repeats)
    first, estimates = problem.first_term(members[0]), [problem.estimate(member) for member in members]
    exact = estimates[KINDS.index("exact")]
    for kind, estimate, milliseconds in zip(KINDS, estimates, found[1:], strict=True):
        second = added(estimate, first, -1.0)
        report.add(
            space=case.space,
            estimator=name,
            products=kind,
            ms=milliseconds,
            cost=milliseconds / found[0],
            cosine=cosine(estimate, exact),
            second_cosine=cosine(second, added(exact, first, -1.0)),
            second_size=norm(second) / norm(first),
        )


def problem_of(case: Case, inner_batches: int, training_steps: int = 20) -> Problem:
    """Train a new supernet for a few steps of 16 images; the same case gives the same bits."""
    space, relaxation = case.build(), Softmax()
    torch.manual_seed(0)
    supernet = space.supernet()

    def loss(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
        mixture = relaxation.relax(space.blocks, alpha, None, 0.0).mixture
        return F.cross_entropy(functional_call(supernet, weights, (batch.inputs, mixture)), batch.targets)

    weights = {name: weight.detach() for name, weight in supernet.named_parameters()}
    alpha = relaxation.init(space.blocks, random_streams.generator(0, "alpha"))
    descent = Descent(lr=0.025, momentum=0.9, weight_decay=5e-4, nesterov=True)
    for batch in batches(case, 16, "training", training_steps):
        at = leaves(weights)
        weights, descent = descent.step(weights, gradients(lambda at=at, batch=batch: loss(at, alpha, batch), at)[0])
    inner, (outer,) = Batches(batches(case, case.batch, "inner", inner_batches)), batches(case, case.batch, "outer", 1)
    return Problem(BilevelProblem(loss, loss), weights, alpha, descent, inner, outer)


def batches(case: Case, count: int, purpose: str, number: int) -> Iterator[Batch]:
    """Yield noise around one random picture for each class: something to learn, without a data set."""
    shape = (3, case.image_size, case.image_size)
    pictures = torch.randn(10, *shape, generator=random_streams.generator(0, "classes"))
    for index in range(number):
        stream = random_streams.generator(0, purpose, index)
        labels = torch.randint(0, 10, (count,), generator=stream)
        images = pictures[labels] + torch.randn(count, *shape, generator=stream)
        yield Batch(images.contiguous(memory_format=torch.channels_last), labels)


def peak(case: Case, name: str, length: int) -> float:
    """Return the memory of an estimate that looks back so many steps; nothing is trained before."""
    hypergradient = GROWING[name](length)
    problem = problem_of(case, hypergradient.inner_batches, training_steps=0)
    return growth(partial(problem.estimate, hypergradient))


if __name__ == "__main__":
    main()
